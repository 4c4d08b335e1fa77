"""Agents between which guests move: tracker and auditor of each on a fake hypervisor, with one
database for all or one each."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from rtagent.audit import Auditor, AuditSummary
from rtagent.claims import activate_claim, instance_claim, release_claim, update_usage
from rtagent.identity.enrollment import Claimant, HeartbeatWatch, enroll
from rtagent.lifecycle.moves import move_claim
from rtagent.lifecycle.moves.steps import claimed_usage
from rtagent.model.assignment import Assignment
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.migration import MigrationFacts, MoveRequest
from rtagent.model.node import Node, Writer
from rtagent.model.node_state import NodeState, restore
from rtagent.model.policy import Policy
from rtagent.model.request import BuildRequest, Flavor, Instance, InstanceUpdate
from rtagent.testing.failpoints import FailingStore
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.testing.memory_store import Disk, MemoryStore
from rtagent.tracker import ResourceTracker
from tests.support.device_states import policy as pci_policy
from tests.support.hosts import PINNED, PINNING, TOPOLOGY, ManualClock, call, copied, host, uid
from tests.support.pci_hosts import gpu
from tests.support.stores import assert_loads
from tests.support.trackers import submit

LEASE = 300
POLICY = host(
    numa=PINNING, pci=pci_policy(), claim_expiry_time=LEASE, cpu_allocation_ratio=4
).policy
GUEST, OTHER = uid(501), uid(502)
SMALL = Flavor(vcpus=1, memory_mb=1024, root_gb=1)
LARGE = Flavor(vcpus=2, memory_mb=3072, root_gb=2)


def pinned(vcpus: int, aliases: str = "", **more: Any) -> Flavor:
    """A flavor with dedicated CPUs, and devices."""
    named = {"pci_passthrough:alias": aliases} if aliases else {}
    return Flavor(vcpus=vcpus, memory_mb=512, extra_specs={**PINNED, **named}, **more)


def with_devices(aliases: str) -> Flavor:
    return Flavor(vcpus=1, memory_mb=512, extra_specs={"pci_passthrough:alias": aliases})


def pins(claim: Claim) -> frozenset[int]:
    return (claim.numa_topology or Assignment()).taken


def facts(kind: str = "resize", **more: Any) -> MigrationFacts:
    return MigrationFacts(uuid=uid(), migration_type=kind, **more)


class Agent:
    """One host and its agent, which can be restarted."""

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
        self.watch = HeartbeatWatch()
        self.disk, self.clock, self.policy = disk or Disk(), clock or ManualClock(), policy
        self.world = FakeHypervisor(TOPOLOGY)
        self.world.plug(*(gpu(address, numa_node=None) for address in gpus))
        self.start()

    def start(
        self, machine: str = "m", prepare: Callable[[FailingStore], object] = lambda store: None
    ) -> None:
        """Start a new process. :param prepare: prepares its store, to fail for instance."""
        self.store = FailingStore(MemoryStore(self.disk))
        prepare(self.store)
        writer = Writer(machine_id=machine, boot_id="b", state_path="/s")
        me = Claimant(node=self.node, writer=writer, compute_id="id", service_down_time=60)
        rule = enroll(me, self.watch, self.clock.monotonic())
        stored = self.store.enroll(self.node.uuid, self.node.hypervisor_hostname, rule)
        self.tracker = ResourceTracker(self.store, self.clock, restore(stored, self.policy))
        self.auditor = Auditor(self.tracker, self.world, self.clock)
        assert self.audit("start").good

    def copy(self, disk: Disk, clock: ManualClock) -> Self:
        """Return an agent in the same state. :param disk: a copy of this one's."""
        twin = copied(self)
        twin.disk, twin.clock, twin.world = disk, clock, copied(self.world)
        twin.store = FailingStore(MemoryStore(disk))
        twin.tracker = ResourceTracker(twin.store, clock, self.state)
        twin.auditor = Auditor(twin.tracker, twin.world, clock)
        return twin

    # -- calls ------------------------------------------------------------------------------------

    def build(self, flavor: Flavor = SMALL, owner: str = GUEST) -> Claim:
        asked = BuildRequest(instance=Instance(uuid=owner, flavor=flavor))
        return self.tracker.create(instance_claim, self.next_call("instance_claim"), asked)

    def run(self, flavor: Flavor = SMALL, owner: str = GUEST) -> Claim:
        """Build a guest and start its domain."""
        claim = self.build(flavor, owner)
        claim = self.tracker.change(activate_claim, self.next_call("activate_claim"), claim.uuid)
        self.start_domain(claim)
        return claim

    def claim_move(
        self, move: MigrationFacts, flavor: Flavor = SMALL, owner: str = GUEST, old: Flavor = SMALL
    ) -> Claim:
        """Claim resources for a guest that is to arrive."""
        return self.tracker.create(
            move_claim, self.next_call("resize_claim"), self.move_request(move, flavor, owner, old)
        )

    def move_request(
        self, move: MigrationFacts, flavor: Flavor = SMALL, owner: str = GUEST, old: Flavor = SMALL
    ) -> MoveRequest:
        return MoveRequest(
            build=BuildRequest(instance=Instance(uuid=owner, flavor=flavor)),
            old_flavor=old,
            migration=move,
        )

    def move(self, verb: str, move: MigrationFacts, owner: str = GUEST) -> Any:
        """Make a call of a move, by its method's name."""
        more = (self.auditor.domains,) if verb == "drop_move_claim_at_source" else ()
        return submit(self.tracker, verb, self.next_call(verb), owner, move, *more)

    def update(self, vm_state: str, task_state: str | None = None, owner: str = GUEST) -> None:
        update = InstanceUpdate(uuid=owner, vm_state=vm_state, task_state=task_state)
        self.tracker.execute(update_usage, self.next_call("update_usage"), update)

    def release(self, claim: Claim) -> None:
        self.tracker.execute(release_claim, self.next_call("release_claim"), claim.uuid)

    def next_call(self, method: str) -> Call:
        """A call, a second after the one before."""
        self.clock.advance(1)
        return call(method)

    # -- the host ---------------------------------------------------------------------------------

    def start_domain(self, claim: Claim) -> None:
        """Start a domain that has what the claim assigns."""
        usage = claimed_usage(claim)
        self.world.start_domain(
            usage.domain_uuid, usage.vcpus, usage.memory_mb, occupancy=usage.occupancy
        )

    def audit(self, cause: str = "periodic") -> AuditSummary:
        """Audit, and check the invariants of the state."""
        summary = self.auditor.run(cause)
        self.state.check()
        return summary

    def audit_while(self, step: str, happens: Callable[[], object]) -> AuditSummary:
        """Audit, and do something just before that step of the observation."""

        def between(name: str) -> None:
            if name == step:
                happens()

        self.world.between = between
        try:
            return self.audit()
        finally:
            self.world.between = lambda name: None

    # -- state ------------------------------------------------------------------------------------

    @property
    def state(self) -> NodeState:
        return self.tracker.snapshot()

    @property
    def stored(self) -> NodeState:
        """The state that a restart would find."""
        return restore(self.store.load(self.node.uuid), self.policy)

    def states(self, owner: str = GUEST) -> list[str]:
        return [claim.state for claim in self.state.claims_of(owner)]

    def allocated(self) -> dict[str, str]:
        """The owner of each allocated unit, by the unit's name."""
        return {name: owner for (_, name), owner in self.state.units.items()}


def agents(
    number: int = 2, *, shared: bool = True, first: int = 1, **more: Any
) -> tuple[Agent, ...]:
    """Hosts with one clock and one database, or a database each. :param first: number of a host."""
    disk, clock = Disk(), ManualClock()
    return tuple(
        Agent(each, disk if shared else None, clock, **more)
        for each in range(first, first + number)
    )


def copies(of: Sequence[Agent]) -> tuple[Agent, ...]:
    """Return agents in the same states, with one clock; a database of two is one database again."""
    clock, disks = copied(of[0].clock), {}
    for agent in of:
        disks[id(agent.disk)] = twin = Disk()
        twin.nodes = {uuid: copied(node) for uuid, node in agent.disk.nodes.items()}
    return tuple(agent.copy(disks[id(agent.disk)], clock) for agent in of)


def check_all(of: Iterable[Agent]) -> None:
    """Check the invariants of every host, and that a restart would find the same."""
    for agent in of:
        agent.state.check()
        assert_loads(agent.store, agent.state)
