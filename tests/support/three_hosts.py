"""Three hosts with agents, and the claims that they must hold according to the answers."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from msgspec.structs import replace

from rtagent.audit import Auditor
from rtagent.claims import activate_claim, instance_claim, update_usage
from rtagent.lifecycle.moves import move_claim
from rtagent.lifecycle.moves.steps import claimed_usage
from rtagent.model.claim import Claim
from rtagent.model.migration import MigrationFacts, MoveRequest
from rtagent.model.node import Node
from rtagent.model.node_state import NodeState
from rtagent.model.policy import PciPolicy, Policy
from rtagent.model.request import BuildRequest, Flavor, Instance, InstanceUpdate
from rtagent.model.units import MB_IN_GB
from rtagent.testing.failing_store import FailingStore
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.testing.memory_store import Disk, MemoryStore
from rtagent.tracker import ResourceTracker
from tests.support.hosts import PINNED, PINNING, TOPOLOGY, ManualClock, call, copied, uid
from tests.support.pci_hosts import ALIASES, GPU_0, GPU_1, SPECS, gpu
from tests.support.trackers import enroll, submit

PLAIN = Flavor(vcpus=1, memory_mb=1024, root_gb=1)
PINNED_2 = Flavor(vcpus=2, memory_mb=512, extra_specs=PINNED)
ONE_GPU = Flavor(vcpus=1, memory_mb=256, extra_specs={"pci_passthrough:alias": "gpu:1"})
TWO_GPUS = Flavor(vcpus=1, memory_mb=256, extra_specs={"pci_passthrough:alias": "gpu:2"})
FLAVORS = (
    PLAIN,
    Flavor(vcpus=1, memory_mb=6144, root_gb=20),
    PINNED_2,
    Flavor(vcpus=3, memory_mb=1024, extra_specs=PINNED),
    ONE_GPU,
    replace(TWO_GPUS, extra_specs={**TWO_GPUS.extra_specs, **PINNED}),
)


def policy(reuse: bool) -> Policy:
    return Policy(
        numa=PINNING,
        pci=PciPolicy(specs=SPECS, aliases=ALIASES),
        same_host_resize_reuse=reuse,
        # So that the vCPUs of two guests without dedicated CPUs fit.
        cpu_allocation_ratio=Policy().cpu_allocation_ratio * 4,
    )


@dataclass
class ExpectedClaim:
    """An expected claim. :ivar move: its last migration. :ivar born: when it was made."""

    owner: str
    host: int
    kind: str
    state: str
    born: datetime
    flavor: Flavor
    move: str | None
    pins: frozenset[int]
    devices: frozenset[str]

    @property
    def quantities(self) -> Counter[str]:
        pinned = "hw:cpu_policy" in self.flavor.extra_specs
        return Counter(
            vcpus=0 if pinned else self.flavor.vcpus,
            pcpus=self.flavor.vcpus if pinned else 0,
            memory_mb=self.flavor.memory_mb,
            disk_mb=self.flavor.root_gb * MB_IN_GB,
        )


def expected_claim(claim: Claim, host: int) -> ExpectedClaim:
    """Return the expected claim for an answer."""
    place = claim.numa_topology
    return ExpectedClaim(
        owner=claim.owner_id,
        host=host,
        kind=claim.kind,
        state=claim.state,
        born=claim.created_at,
        flavor=claim.flavor,
        move=claim.migration_uuid,
        pins=place.taken if place else frozenset(),
        devices=frozenset(device.address for device in claim.pci),
    )


@dataclass
class ExpectedClaims:
    """The claims that the hosts must hold.

    :ivar held: by claim uuid.
    :ivar reuse: two claims of one owner on one host count as the larger of the two.
    """

    reuse: bool
    held: dict[str, ExpectedClaim] = field(default_factory=dict)

    def at(self, host: int) -> dict[str, ExpectedClaim]:
        return {uuid: each for uuid, each in self.held.items() if each.host == host}

    def usage(self, host: int) -> Counter[str]:
        total: Counter[str] = Counter()
        owners: dict[str, list[ExpectedClaim]] = {}
        for each in self.at(host).values():
            owners.setdefault(each.owner, []).append(each)
        for mine in owners.values():
            sums: Counter[str] = Counter()
            for each in mine:
                sums = sums | each.quantities if self.reuse else sums + each.quantities
            total += sums
        return total

    def holders(self, host: int) -> dict[str, str]:
        """Return the owner of each CPU and device; fail if one has two."""
        owners: dict[str, str] = {}
        for each in self.at(host).values():
            for name in (*map(str, each.pins), *each.devices):
                assert owners.setdefault(name, each.owner) == each.owner, f"{name} has two owners"
        return owners


class ThreeHosts:
    """Three hosts with an agent each, on one database or on one each."""

    def __init__(self, *, shared: bool = True, reuse: bool = False) -> None:
        self.clock = ManualClock()
        self.expected, self.policy = ExpectedClaims(reuse), policy(reuse)
        self._disks = [Disk()] * 3 if shared else [Disk() for _ in range(3)]
        self.stores = [FailingStore(MemoryStore(disk)) for disk in self._disks]
        self.hypervisors = [FakeHypervisor(TOPOLOGY, hostname=f"h{n}.example") for n in range(3)]
        for hypervisor in self.hypervisors:
            hypervisor.plug(gpu(GPU_0, 0), gpu(GPU_1, 1))
        self.trackers: list[ResourceTracker] = [self._start(n) for n in range(3)]
        self.auditors = [self._auditor(n) for n in range(3)]
        for n in range(3):
            self.audit(n)

    def _start(self, number: int) -> ResourceTracker:
        node = Node(
            uuid=uid(9000 + number),
            host=f"h{number}",
            hypervisor_hostname=f"h{number}.example",
            host_ip="::1",
        )
        store = self.stores[number]
        return ResourceTracker(store, self.clock, enroll(store, self.policy, node))

    def _auditor(self, number: int) -> Auditor:
        return Auditor(self.trackers[number], self.hypervisors[number], self.clock)

    def copy(self) -> Self:
        """Return hosts that are in the same state. The expected claims are shared."""
        twin = copied(self)
        twin.clock = copied(self.clock)
        disks = {id(disk): _copied_disk(disk) for disk in self._disks}
        twin._disks = [disks[id(disk)] for disk in self._disks]
        twin.stores = [FailingStore(MemoryStore(disk)) for disk in twin._disks]
        twin.hypervisors = [copied(hypervisor) for hypervisor in self.hypervisors]
        twin.trackers = [
            ResourceTracker(store, twin.clock, tracker.snapshot())
            for store, tracker in zip(twin.stores, self.trackers, strict=True)
        ]
        twin.auditors = [twin._auditor(n) for n in range(3)]
        return twin

    def restart(self, number: int) -> None:
        """Restart the agent of a host, which audits first."""
        self.trackers[number] = self._start(number)
        self.auditors[number] = self._auditor(number)
        self.audit(number)

    def audit(self, number: int) -> None:
        assert self.auditors[number].run("test").complete

    def state(self, number: int) -> NodeState:
        return self.trackers[number].snapshot()

    def check(self, *numbers: int) -> None:
        """Check that hosts and stores have the expected claims."""
        for number in numbers:
            state = self.state(number)
            state.check()
            found = {c.uuid: expected_claim(c, number) for c in state.claims.values()}
            assert found == self.expected.at(number)
            use = self.expected.usage(number)
            seen = state.usage
            assert (seen.vcpus, seen.pcpus, seen.memory_mb, seen.disk_mb) == tuple(
                use[name] for name in ("vcpus", "pcpus", "memory_mb", "disk_mb")
            )
            holders = {name: owner for (_, name), owner in state.units.items()}
            assert holders == self.expected.holders(number)
            stored = self.stores[number].load(state.node.uuid)
            assert {c.uuid: c for c in stored.claims} == dict(state.claims)
            assert {m.uuid: m for m in stored.migrations} == dict(state.migrations)


def _copied_disk(disk: Disk) -> Disk:
    twin = Disk()
    twin.nodes = {uuid: copied(node) for uuid, node in disk.nodes.items()}
    return twin


class Guests(ThreeHosts):
    """Every call has an operation id of its own."""

    def claim(self, host: int, flavor: Flavor = PLAIN, owner: str | None = None) -> Claim:
        """Claim resources for a build."""
        self.clock.advance(1)
        request = BuildRequest(instance=Instance(uuid=owner or uid(), flavor=flavor))
        return self.trackers[host].create(instance_claim, call("instance_claim"), request)

    def run(self, host: int, flavor: Flavor = PLAIN, owner: str | None = None) -> Claim:
        """Build a guest and start its domain."""
        claim = self.claim(host, flavor, owner)
        claim = self.trackers[host].change(activate_claim, call("activate_claim"), claim.uuid)
        self.start_domain(host, claim)
        return claim

    def claim_move(
        self, host: int, of: Claim, kind: Any = "resize", flavor: Flavor | None = None
    ) -> tuple[Claim, MigrationFacts]:
        """Claim resources for a guest that is to arrive: its claim, and the migration."""
        self.clock.advance(1)
        migration = MigrationFacts(
            uuid=uid(), migration_type=kind, source_compute=of.host, dest_compute=f"h{host}"
        )
        instance = Instance(uuid=of.owner_id, flavor=flavor or of.flavor)
        build = BuildRequest(instance=instance)
        request = MoveRequest(build=build, old_flavor=of.flavor, migration=migration)
        return self.trackers[host].create(move_claim, call("resize_claim"), request), migration

    def move(self, host: int, verb: str, of: Claim, migration: MigrationFacts) -> Any:
        """Make a call of a move at that host, by its method's name."""
        self.clock.advance(1)
        more = (self.auditors[host].domains,) if verb == "drop_move_claim_at_source" else ()
        return submit(self.trackers[host], verb, call(verb), of.owner_id, migration, *more)

    def update(self, host: int, of: Claim, vm_state: str, task_state: str | None = None) -> None:
        """Report the instance's new state."""
        update = InstanceUpdate(uuid=of.owner_id, vm_state=vm_state, task_state=task_state)
        self.trackers[host].execute(update_usage, call("update_usage"), update)

    # -- domains ----------------------------------------------------------------------------------

    def start_domain(self, host: int, claim: Claim) -> None:
        """Start a domain that has what the claim assigns."""
        usage = claimed_usage(claim)
        self.hypervisors[host].start_domain(
            usage.domain_uuid, usage.vcpus, usage.memory_mb, occupancy=usage.occupancy
        )

    def stop_domain(self, host: int, claim: Claim) -> None:
        """Destroy the claim's domain."""
        self.hypervisors[host].destroy(claim.owner_id)

    def audit_between(self, host: int, what: Callable[[], None], step: str = "finish") -> None:
        """Audit, and do something just before that step of the observation."""

        def between(at: str) -> None:
            if at == step:
                what()

        self.hypervisors[host].between = between
        self.audit(host)
        self.hypervisors[host].between = lambda at: None

    # -- state ----------------------------------------------------------------------------------

    def states(self, host: int, of: Claim) -> list[str]:
        return [claim.state for claim in self.state(host).claims_of(of.owner_id)]

    def allocated(self, host: int) -> dict[str, str]:
        """Return the owner of each CPU and device, by the unit's name."""
        return {name: owner for (_, name), owner in self.state(host).units.items()}

    def check_all(self) -> None:
        """Check the invariants of every host, and that a restart would find the same."""
        for host in range(3):
            state = self.state(host)
            state.check()
            stored = self.stores[host].load(state.node.uuid)
            assert {claim.uuid: claim for claim in stored.claims} == dict(state.claims)
