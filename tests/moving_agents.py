"""Agents between which guests move: each the real tracker and audit, on a hypervisor in memory; all
on one database, or each on its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rtagent.audit import Auditor, AuditSummary
from rtagent.db.failing import FailingStore
from rtagent.db.memory import Disk, MemoryStore
from rtagent.identity import Claimant, enroll
from rtagent.kernel import restored
from rtagent.model.assignment import Assignment
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.flavor import Flavor
from rtagent.model.host import HostState
from rtagent.model.instance import Instance, InstanceUpdate
from rtagent.model.migration import MigrationFacts
from rtagent.model.move import MoveRequest
from rtagent.model.node import Node, Writer
from rtagent.model.numa_usage import Occupancy
from rtagent.model.policy import Policy
from rtagent.model.request import BuildRequest
from rtagent.tracker import ResourceTracker
from rtagent.virt.fake import FakeHypervisor
from tests.builders import PINNED, PINNING, TOPOLOGY, ManualClock, call, host, uid
from tests.device_states import policy as offering
from tests.pci_hosts import gpu

LEASE = 300
POLICY = host(numa=PINNING, pci=offering(), claim_expiry_time=LEASE, cpu_allocation_ratio=4).policy
GUEST, OTHER = uid(501), uid(502)
SMALL = Flavor(vcpus=1, memory_mb=1024, root_gb=1)
LARGE = Flavor(vcpus=2, memory_mb=3072, root_gb=2)


def pinned(vcpus: int, aliases: str = "", **more: Any) -> Flavor:
    """CPUs of its own, and devices."""
    named = {"pci_passthrough:alias": aliases} if aliases else {}
    return Flavor(vcpus=vcpus, memory_mb=512, extra_specs={**PINNED, **named}, **more)


def with_devices(aliases: str) -> Flavor:
    return Flavor(vcpus=1, memory_mb=512, extra_specs={"pci_passthrough:alias": aliases})


def pins(claim: Claim) -> frozenset[int]:
    return (claim.numa_topology or Assignment()).taken


def told(kind: str = "resize", **more: Any) -> MigrationFacts:
    return MigrationFacts(uuid=uid(), migration_type=kind, **more)


class Agent:
    """One host and its agent, which may be started again."""

    def __init__(
        self,
        number: int = 1,
        disk: Disk | None = None,
        clock: ManualClock | None = None,
        policy: Policy = POLICY,
        gpus: Iterable[str] = (),
    ) -> None:
        self.node = Node(
            uuid=uid(600 + number), host=f"h{number}", hypervisor_hostname=f"h{number}.example"
        )
        self.disk, self.clock, self.policy = disk or Disk(), clock or ManualClock(), policy
        self.world = FakeHypervisor(TOPOLOGY)
        self.world.plug(*(gpu(address, numa_node=None) for address in gpus))
        self.start()

    def start(
        self, machine: str = "m", prepare: Callable[[FailingStore], object] = lambda store: None
    ) -> None:
        """A process begins, on what the one before has left. :param prepare: its store."""
        self.store = FailingStore(MemoryStore(self.disk))
        prepare(self.store)
        writer = Writer(machine_id=machine, boot_id="b", state_path="/s", process=uid())
        me = Claimant(node=self.node, writer=writer, compute_id="id", service_down_time=60)
        rule = enroll(me, self.clock.now())
        stored = self.store.enroll(self.node.uuid, self.node.hypervisor_hostname, rule)
        self.tracker = ResourceTracker(self.store, self.clock, restored(stored, self.policy))
        self.auditor = Auditor(self.tracker, self.world, self.clock)
        assert self.audit("start").good

    # -- calls ------------------------------------------------------------------------------------

    def builds(self, flavor: Flavor = SMALL, owner: str = GUEST) -> Claim:
        asked = BuildRequest(claim_uuid=uid(), instance=Instance(uuid=owner, flavor=flavor))
        return self.tracker.instance_claim(asked, self.asked("instance_claim"))

    def runs(self, flavor: Flavor = SMALL, owner: str = GUEST) -> Claim:
        """A guest is built, and its domain is started."""
        claim = self.builds(flavor, owner)
        claim = self.tracker.activate_claim(claim.uuid, self.asked("activate_claim"))
        self.boots(claim)
        return claim

    def expects(
        self, move: MigrationFacts, flavor: Flavor = SMALL, owner: str = GUEST, old: Flavor = SMALL
    ) -> Claim:
        """A guest is to arrive."""
        return self.tracker.move_claim(
            self.expecting(move, flavor, owner, old), self.asked("resize_claim")
        )

    def expecting(
        self, move: MigrationFacts, flavor: Flavor = SMALL, owner: str = GUEST, old: Flavor = SMALL
    ) -> MoveRequest:
        return MoveRequest(
            build=BuildRequest(claim_uuid=uid(), instance=Instance(uuid=owner, flavor=flavor)),
            kind=move.migration_type,
            old_flavor=old,
            migration=move,
        )

    def does(self, verb: str, move: MigrationFacts, owner: str = GUEST) -> Any:
        """A call of a move."""
        return getattr(self.tracker, verb)(owner, move, self.asked(verb))

    def hears(self, vm_state: str, task_state: str | None = None, owner: str = GUEST) -> None:
        news = InstanceUpdate(uuid=owner, vm_state=vm_state, task_state=task_state)
        self.tracker.update_usage(news, self.asked("update_usage"))

    def releases(self, claim: Claim) -> None:
        self.tracker.release_claim(claim.uuid, self.asked("release_claim"))

    def asked(self, method: str) -> Call:
        """A call that comes a second after the one before."""
        self.clock.advance(1)
        return call(method)

    # -- the host ---------------------------------------------------------------------------------

    def boots(self, claim: Claim) -> None:
        """The domain that the claim speaks of runs."""
        given = Occupancy(
            pcpus=pins(claim), devices=frozenset(device.address for device in claim.pci)
        )
        flavor = claim.flavor
        self.world.start_domain(claim.owner_id, flavor.vcpus, flavor.memory_mb, occupancy=given)

    def audit(self, cause: str = "periodic") -> AuditSummary:
        """One that finds the state whole, and leaves it so."""
        summary = self.auditor.run(cause)
        self.state.check()
        return summary

    def audit_while(self, step: str, happens: Callable[[], object]) -> AuditSummary:
        """An audit, in whose observation this happens just before that step of it."""

        def between(name: str) -> None:
            if name == step:
                happens()

        self.world.between = between
        try:
            return self.audit()
        finally:
            self.world.between = lambda name: None

    # -- what is there ----------------------------------------------------------------------------

    @property
    def state(self) -> HostState:
        return self.tracker.snapshot()

    @property
    def kept(self) -> HostState:
        """As a restart would find it."""
        return restored(self.store.load(self.node.uuid), self.policy)

    def states(self, owner: str = GUEST) -> list[str]:
        return [claim.state for claim in self.state.claims_of(owner)]

    def holders(self) -> dict[str, str]:
        """The owner of each unit that is held, by its name."""
        return {name: owner for (_, name), owner in self.state.units.items()}


def neighbours(number: int = 2, *, shared: bool = True, **more: Any) -> tuple[Agent, ...]:
    """Hosts on one database, or each on its own; one clock."""
    disk, clock = Disk(), ManualClock()
    return tuple(
        Agent(each, disk if shared else None, clock, **more) for each in range(1, number + 1)
    )
