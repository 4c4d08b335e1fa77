"""An agent without a message bus: tracker, audit and endpoint on a store in memory."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from oslo_context.context import RequestContext
from oslo_messaging.rpc.dispatcher import ExpectedException

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend
from rtagent.api.reply import Reply
from rtagent.audit import Auditor
from rtagent.conf.rpc import Rpc
from rtagent.errors import AllocationNotWritten, HypervisorUnavailable, PlacementError
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.consumers import DeletionReason
from rtagent.model.policy import PciPolicy, Policy
from rtagent.model.store_restore import StoreRestore
from rtagent.model.stored import Position
from rtagent.ports import Store
from rtagent.rpc.duplicates import AgentIdentity, Duplicates
from rtagent.rpc.host_lock import Attempt, HostLock, host_lock
from rtagent.rpc.methods import AGENT_API
from rtagent.rpc.served_agent import ServedAgent
from rtagent.rpc.serving import Endpoint, InFlight
from rtagent.rpc.trust.access import Access, CallerBounds
from rtagent.state.restoration import MemoryWitness
from rtagent.telemetry.telemetry import Telemetry
from rtagent.testing.access import unsigned_access
from rtagent.testing.failpoints import FailingStore
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.testing.memory_store import MemoryServiceRegistry, MemoryStore
from rtagent.tracker import ResourceTracker
from rtagent.virt.libvirt import guest
from tests.support.hosts import NODE, NOON, TOPOLOGY, ManualClock, uid
from tests.support.pci_hosts import ALIASES, GPU_0, SPECS, two_gpus_and_a_nic
from tests.support.trackers import enroll
from tests.support.workload.deployment import open_transport

VERSION = "1.2.3"
POLICY = Policy(pci=PciPolicy(specs=SPECS, aliases=ALIASES))
#: A restored store that the operator has accepted some time ago.
ACCEPTED = StoreRestore(
    found=Position(epoch=1, revision=1),
    acknowledged=Position(epoch=1, revision=3),
    acknowledged_at=NOON,
    noticed_at=NOON,
    revision=4,
    compared=False,
    accepted_at=NOON,
)
#: A domain to adopt, which `Agent.start_orphan` starts.
ORPHAN = uid(999)
DEVICES = tuple(each.device for each in two_gpus_and_a_nic().values())


def agent_endpoint(
    *,
    tracker: ResourceTracker,
    auditor: Auditor,
    clock: Any,
    reporter: Any,
    access: Access | None = None,
    in_flight: InFlight | None = None,
    **parts: Any,
) -> Endpoint:
    """Make the endpoint of an agent. :param parts: of `ServedAgent`; the others do nothing."""
    node = tracker.snapshot().node
    me = AgentIdentity(agent_uuid=uid(), node_uuid=node.uuid, node=node.hypervisor_hostname)
    usual: dict[str, Any] = {
        "registry": MemoryServiceRegistry(),
        "version": VERSION,
        "guest": guest,
        "duplicates": Duplicates(me, node.host, clock, tracker.creation.suspend),
        "sync_placement": lambda: 0,
        "document": lambda target: Reply(body=b"{}"),
        **dict.fromkeys(("settle", "confirm", "delete_allocation", "report_host"), _do_nothing),
    }
    served = ServedAgent(tracker=tracker, auditor=auditor, clock=clock, **{**usual, **parts})
    calls = InFlight(clock) if in_flight is None else in_flight  # one without calls is false
    admits = access or unsigned_access(reporter)
    return Endpoint(AGENT_API, served, calls, clock, reporter, admits, check=served.check)


def _do_nothing(*_: object) -> None:
    """Do nothing."""


class Agent:
    """A node with 8 CPUs, 16 GB of memory, 100 GB of disk, two GPUs and a network card, after its
    first audit.

    :ivar settled: uuids of the claims for whose domains the host was prepared.
    :ivar settle_error: raised instead of preparing the host, if not None.
    :ivar placement_error: raised by a sync of Placement, if not None.
    """

    def __init__(
        self,
        clock: Any = None,
        wrap: Callable[[Store], Store] = lambda store: store,
        bounds: Rpc | None = None,
    ) -> None:
        """:param wrap: wraps the store that the tracker uses.
        :param bounds: the options that bound the calls of each caller; None: they are not bounded.
        """
        self.clock = clock or ManualClock()
        self.memory = MemoryStore()
        self.store = FailingStore(wrap(self.memory))
        self.hypervisor = FakeHypervisor(TOPOLOGY, hostname=NODE.hypervisor_hostname)
        self.hypervisor.plug(*DEVICES)
        self.registry = MemoryServiceRegistry()
        self.telemetry = Telemetry(self.clock)
        witness = MemoryWitness()
        witness.keep(ACCEPTED)
        self.tracker = ResourceTracker(
            self.store, self.clock, enroll(self.store, POLICY), self.telemetry, witness=witness
        )
        self.auditor = Auditor(self.tracker, self.hypervisor, self.clock, self.telemetry)
        self.auditor.run("start")
        self.in_flight = InFlight(self.clock)
        self.identity = AgentIdentity(
            agent_uuid=uid(), node_uuid=NODE.uuid, node=NODE.hypervisor_hostname
        )
        self.duplicates = Duplicates(
            self.identity, NODE.host, self.clock, self.tracker.creation.suspend
        )
        self.access = unsigned_access(
            self.telemetry, bounds=bounds and CallerBounds(bounds, self.clock)
        )
        self.serve()
        self.document = Reply(body=b"{}")
        self.asked: list[tuple[bool, bool]] = []
        self.deleted: list[tuple[str, DeletionReason]] = []
        self.settled: list[str] = []
        self.confirmed: list[tuple[str, str]] = []
        self.confirm_error: AllocationNotWritten | None = None
        self.settle_error: HypervisorUnavailable | None = None
        self.placement_error: PlacementError | None = None

    def serve(self, **changed: Any) -> None:
        """Make the endpoint. :param changed: parts of `ServedAgent` in place of the usual ones."""
        parts: dict[str, Any] = {
            "tracker": self.tracker,
            "auditor": self.auditor,
            "registry": self.registry,
            "settle": self._settle,
            "confirm": self._confirm,
            "sync_placement": self._sync_placement,
            "delete_allocation": self._delete_allocation,
            "duplicates": self.duplicates,
            "report_host": lambda *parts: self.asked.append(parts),
            "document": self._document,
        }
        self.endpoint = agent_endpoint(
            clock=self.clock,
            reporter=self.telemetry,
            access=self.access,
            in_flight=self.in_flight,
            **{**parts, **changed},
        )

    def start_orphan(self) -> None:
        """Start a domain without a claim, and audit."""
        self.hypervisor.start_domain(ORPHAN, 1, 64)
        self.auditor.run("test")

    def _document(self, target: str) -> Reply:
        return self.document

    def _settle(self, claim: Claim) -> None:
        if self.settle_error is not None:
            raise self.settle_error
        self.settled.append(claim.uuid)

    def _delete_allocation(self, instance_uuid: str, reason: DeletionReason) -> None:
        if self.placement_error is not None:
            raise self.placement_error
        self.deleted.append((instance_uuid, reason))

    def _confirm(self, claim: Claim, call: Call) -> None:
        if self.confirm_error is not None:
            raise self.confirm_error
        self.confirmed.append((claim.uuid, call.method))

    def _sync_placement(self) -> int:
        if self.placement_error is not None:
            raise self.placement_error
        return self.tracker.snapshot().revision

    def invoke(self, method: str, /, **document: Any) -> Any:
        """Call a method as oslo.messaging does, without a user; its reply, or its error."""
        return self.invoke_as(
            RequestContext(roles=["operator"], overwrite=False), method, **document
        )

    def invoke_as(self, context: RequestContext, method: str, /, **document: Any) -> Any:
        """Call a method with a context."""
        return invoke(self.endpoint, context, method, document)

    def sample(self, name: str, **labels: str) -> float | None:
        """Return the value of one of the agent's metrics."""
        return self.telemetry.metrics.registry.get_sample_value(f"rtagent_{name}", labels)


def invoke(
    endpoint: Endpoint, context: RequestContext, method: str, document: Mapping[str, Any]
) -> Any:
    """Call a method as oslo.messaging does; its reply, or its error."""
    try:
        return getattr(endpoint, method)(context, **document)
    except ExpectedException as expected:
        error = expected.exc_info[1]
    raise error


def build(vcpus: int = 1, memory_mb: int = 1024, **more: Any) -> dict[str, Any]:
    """The arguments of ``instance_claim`` for a new instance."""
    flavor = {"vcpus": vcpus, "memory_mb": memory_mb}
    return {"operation_id": uid(), "instance": {"uuid": uid(), "flavor": flavor}, **more}


def operation() -> dict[str, Any]:
    """The operation id of a new call."""
    return {"operation_id": uid()}


def claim_change(claim: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a new call that changes a claim."""
    return {"claim_uuid": claim["uuid"]} | operation()


def migration(migration_type: str, **more: Any) -> dict[str, Any]:
    """Return a new migration, as a conductor passes it."""
    return {"uuid": uid(), "migration_type": migration_type, **more}


def move(claim: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a later call of a move.

    :param claim: the arguments of the move's claim.
    """
    instance = {"instance_uuid": claim["instance"]["uuid"], "migration": claim["migration"]}
    return instance | operation()


def attach(instance: dict[str, Any], alias: str = "vf") -> dict[str, Any]:
    """The arguments of ``claim_pci_devices`` for one device."""
    return {"instance": instance, "pci_requests": [{"count": 1, "alias_name": alias}]} | operation()


def documents() -> dict[str, dict[str, Any]]:
    """Arguments for every method, by name. In this order each call succeeds, if the orphan runs."""
    first = build()
    instance = first["instance"]
    claim, owner = {"claim_uuid": first["operation_id"]}, {"instance_uuid": instance["uuid"]}
    device = attach(instance)
    attached = owner | {"claim_uuid": device["operation_id"]}
    return {
        "instance_claim": first,
        "instance_claims": {"claims": [build(), build()]},
        "activate_claim": claim | operation(),
        "renew_claim": claim | operation(),
        **_moves(owner),
        "test_adoption": {"domain_uuid": ORPHAN},
        "adopt_domain": {"domain_uuid": ORPHAN} | operation(),
        "test_claim": {"instance": build()["instance"]},
        "get_claim": claim,
        "get_claims_for_instance": owner,
        "get_claims_for_host": {},
        "get_node": {},
        "update_usage": {"instance": {"uuid": uid(), "vm_state": "active"}} | operation(),
        "update_available_resource": {},
        "sync_placement": {},
        "claim_pci_devices": device,
        "allocate_pci_devices_for_instance": attached | operation(),
        "unclaim_pci_devices": owner | {"claim_uuid": uid()} | operation(),
        "free_pci_device_claims_for_instance": owner | operation(),
        "free_pci_device_allocations_for_instance": owner | operation(),
        "quarantine_pci_device": {"address": GPU_0, "reason": "it is hot"} | operation(),
        "clear_pci_device": {"address": GPU_0} | operation(),
        **{each.method: {"instance_uuid": uid()} | operation() for each in DeletionReason},
        "build_failed": operation(),
        "build_succeeded": operation(),
        "set_service": {"disabled": True} | operation(),
        "get_restore": {},
        "accept_restore": {"revision": ACCEPTED.revision} | operation(),
        "drain_node": {"reason": "new disks", "deadline": "2030-01-31T18:00:00Z"} | operation(),
        "undrain_node": operation(),
        "get_document": {"path": "/claims"},
        "ping": {},
        "report_host_state": {"description": True},
        "update_forced_down": {"forced_down": False},
        "test_release": {"claim_uuid": first["operation_id"]},
        "abort_instance_claim": claim | operation(),
        "release_claim": claim | operation(),
    }


def _moves(owner: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """A guest moves out and is reverted; three others move in, and two of these moves end."""
    resize = build(flavor={"vcpus": 2, "memory_mb": 2048}, migration=migration("resize"))
    live_migration = build(migration=migration("live-migration"))
    evacuation = build(migration=migration("evacuation"))
    out = owner | {"migration": migration("migration")}
    return {
        "resize_claim": resize,
        "live_migration_claim": live_migration,
        "rebuild_claim": evacuation,
        "finish_move": move(resize),
        "finish_evacuation": move(evacuation),
        "drop_move_claim_at_dest": move(resize),
        "drop_move_claim": move(live_migration),
        "start_move_out": out | operation(),
        "finish_revert": out | operation(),
        "drop_move_claim_at_source": move(build(migration=migration("resize"))),
    }


class Contender:
    """An agent that wants the lock of a host.

    :ivar met: the agents that asked it. :ivar transport: its transport.
    """

    def __init__(self, url: str, host: str) -> None:
        self.transport = open_transport(url)
        self.me = AgentIdentity(agent_uuid=uid(), node_uuid=uid(), node="n", state_path="/s")
        self.met: list[AgentIdentity] = []
        lock = host_lock(self.transport, host, self.me, self.met.append)
        assert lock is not None
        self.lock: HostLock = lock

    def attempt(self) -> Attempt:
        return self.lock.take().attempt

    @contextmanager
    def alive(self) -> Iterator[None]:
        """Keep the lock during the block, as the agent's thread does."""
        stop = threading.Event()

        def keep() -> None:
            while not stop.is_set():
                assert self.lock.keep(0.1)

        thread = threading.Thread(target=keep)
        thread.start()
        yield
        stop.set()
        thread.join()
