"""An agent with everything but a bus: tracker, audit and endpoint on a store in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oslo_context.context import RequestContext
from oslo_messaging.rpc.dispatcher import ExpectedException

from rtagent.audit import Auditor
from rtagent.db.failing import FailingStore
from rtagent.db.memory import MemoryServiceRegistry, MemoryStore
from rtagent.errors import HypervisorUnavailable, PlacementError
from rtagent.kernel import restored
from rtagent.model.claim import Claim
from rtagent.model.node import NodeRecord
from rtagent.model.pci_policy import PciPolicy
from rtagent.model.policy import Policy
from rtagent.ports import Store
from rtagent.rpc.endpoint import Endpoint
from rtagent.rpc.in_flight import InFlight
from rtagent.telemetry.telemetry import Telemetry
from rtagent.tracker import ResourceTracker
from rtagent.virt.fake import FakeHypervisor
from rtagent.virt.libvirt import guest
from tests.builders import NODE, TOPOLOGY, ManualClock, uid
from tests.pci_hosts import ALIASES, GPU_0, SPECS, two_gpus_and_a_nic

VERSION = "1.2.3"
POLICY = Policy(pci=PciPolicy(specs=SPECS, aliases=ALIASES))
DEVICES = tuple(each.device for each in two_gpus_and_a_nic().values())


class Agent:
    """A node with 8 CPUs, 16 GB, 100 GB of disk, two GPUs and a network card that has had its first
    audit.

    :ivar settled: claims that were made ready for their guests. :ivar unsettled: why none can be.
    """

    def __init__(
        self, clock: Any = None, wrap: Callable[[Store], Store] = lambda store: store
    ) -> None:
        """:param wrap: puts something between the tracker and the store."""
        self.clock = clock or ManualClock()
        self.memory = MemoryStore()
        self.store = FailingStore(wrap(self.memory))
        self.hypervisor = FakeHypervisor(TOPOLOGY, hostname=NODE.hypervisor_hostname)
        self.hypervisor.plug(*DEVICES)
        self.registry = MemoryServiceRegistry()
        self.telemetry = Telemetry(self.clock)
        record = NodeRecord(node=NODE, epoch=1, revision=0)
        stored = self.store.enroll(NODE.uuid, NODE.hypervisor_hostname, lambda _: record)
        self.tracker = ResourceTracker(
            self.store, self.clock, restored(stored, POLICY), self.telemetry
        )
        self.auditor = Auditor(self.tracker, self.hypervisor, self.clock, self.telemetry)
        self.auditor.run("start")
        self.in_flight = InFlight(self.clock)
        self.endpoint = Endpoint(
            self.tracker,
            self.auditor,
            self.registry,
            self.clock,
            self.telemetry,
            VERSION,
            self.in_flight,
            guest,
            self._sync_placement,
            self._settle,
        )
        self.settled: list[str] = []
        self.unsettled: HypervisorUnavailable | None = None
        self.placement_fails: PlacementError | None = None

    def _settle(self, claim: Claim) -> None:
        if self.unsettled is not None:
            raise self.unsettled
        self.settled.append(claim.uuid)

    def _sync_placement(self) -> int:
        if self.placement_fails is not None:
            raise self.placement_fails
        return self.tracker.snapshot().revision

    def invoke(self, method: str, /, **document: Any) -> Any:
        """The method's answer, or the error that its caller gets."""
        return self.invoke_as(RequestContext(overwrite=False), method, **document)

    def invoke_as(self, context: RequestContext, method: str, /, **document: Any) -> Any:
        try:
            return getattr(self.endpoint, method)(context, **document)
        except ExpectedException as expected:
            error = expected.exc_info[1]
        raise error

    def sample(self, name: str, **labels: str) -> float | None:
        """The value of one of the agent's metrics."""
        return self.telemetry.metrics.registry.get_sample_value(f"rtagent_{name}", labels)


def build(vcpus: int = 1, memory_mb: int = 1024, **more: Any) -> dict[str, Any]:
    """The arguments of a claim for one new instance."""
    flavor = {"vcpus": vcpus, "memory_mb": memory_mb}
    return {"operation_id": uid(), "instance": {"uuid": uid(), "flavor": flavor}, **more}


def documents() -> dict[str, dict[str, Any]]:
    """Arguments for every method; in this order, each call succeeds."""
    first = build()
    instance = first["instance"]
    claim, owner = {"claim_uuid": first["operation_id"]}, {"instance_uuid": instance["uuid"]}
    device = attach(instance)
    its = owner | {"claim_uuid": device["operation_id"]}
    return {
        "instance_claim": first,
        "activate_claim": claim | made(),
        "renew_claim": claim | made(),
        **_moves(owner),
        "test_claim": {"instance": build()["instance"]},
        "get_claim": claim,
        "get_claims_for_instance": owner,
        "get_claims_for_host": {},
        "get_node": {},
        "update_usage": {"instance": {"uuid": uid(), "vm_state": "active"}} | made(),
        "update_available_resource": {},
        "sync_placement": {},
        "claim_pci_devices": device,
        "allocate_pci_devices_for_instance": its | made(),
        "unclaim_pci_devices": owner | {"claim_uuid": uid()} | made(),
        "free_pci_device_claims_for_instance": owner | made(),
        "free_pci_device_allocations_for_instance": owner | made(),
        "quarantine_pci_device": {"address": GPU_0, "reason": "it is hot"} | made(),
        "clear_pci_device": {"address": GPU_0} | made(),
        "build_failed": made(),
        "build_succeeded": made(),
        "set_service": {"disabled": True} | made(),
        "ping": {},
        "abort_instance_claim": claim | made(),
        "release_claim": claim | made(),
    }


def _moves(owner: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The owner's guest leaves and comes back; three others come here, and two leave again."""
    resized = build(flavor={"vcpus": 2, "memory_mb": 2048}, migration=migration("resize"))
    moved = build(migration=migration("live-migration"))
    lost = build(migration=migration("evacuation"))
    out = owner | {"migration": migration("migration")}
    return {
        "resize_claim": resized,
        "live_migration_claim": moved,
        "rebuild_claim": lost,
        "finish_move": move(resized),
        "finish_evacuation": move(lost),
        "drop_move_claim_at_dest": move(resized),
        "drop_move_claim": move(moved),
        "start_move_out": out | made(),
        "finish_revert": out | made(),
        "drop_move_claim_at_source": move(build(migration=migration("resize"))),
    }


def migration(kind: str, **more: Any) -> dict[str, Any]:
    """A new migration, as a conductor passes it."""
    return {"uuid": uid(), "migration_type": kind, **more}


def move(claim: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a later step of the move for which that claim was asked for."""
    its = {"instance_uuid": claim["instance"]["uuid"], "migration": claim["migration"]}
    return its | made()


def made() -> dict[str, Any]:
    """A new operation's id."""
    return {"operation_id": uid()}


def attach(instance: dict[str, Any], alias: str = "vf") -> dict[str, Any]:
    """The arguments of a claim for one more device of an instance."""
    return {"instance": instance, "pci_requests": [{"count": 1, "alias_name": alias}]} | made()
