"""Three hosts, and a book of what guests may hold on them: what any order of moves is held against.

The book knows nothing of the product's rules. It is told what was answered, and adds up.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from rtagent.audit import Auditor
from rtagent.db.failing import FailingStore
from rtagent.db.memory import Disk, MemoryStore
from rtagent.kernel import restored
from rtagent.model.base import MB_IN_GB
from rtagent.model.claim import Claim
from rtagent.model.flavor import Flavor
from rtagent.model.host import HostState
from rtagent.model.node import Node, NodeRecord
from rtagent.model.pci_policy import PciPolicy
from rtagent.model.policy import Policy
from rtagent.tracker import ResourceTracker
from rtagent.virt.fake import FakeHypervisor
from tests.builders import PINNED, PINNING, TOPOLOGY, ManualClock, uid
from tests.pci_hosts import ALIASES, GPU_0, GPU_1, SPECS, gpu

GPUS = {"pci_passthrough:alias": "gpu:1"}
TWO_GPUS = {"pci_passthrough:alias": "gpu:2"}
FLAVORS = (
    Flavor(vcpus=1, memory_mb=1024, root_gb=1),
    Flavor(vcpus=1, memory_mb=6144, root_gb=20),
    Flavor(vcpus=2, memory_mb=512, extra_specs=PINNED),
    Flavor(vcpus=3, memory_mb=1024, extra_specs=PINNED),
    Flavor(vcpus=1, memory_mb=256, extra_specs=GPUS),
    Flavor(vcpus=1, memory_mb=256, extra_specs={**TWO_GPUS, **PINNED}),
)


def policy(reuse: bool) -> Policy:
    return Policy(
        numa=PINNING,
        pci=PciPolicy(specs=SPECS, aliases=ALIASES),
        same_host_resize_reuse=reuse,
        # So that two plain guests find room for their vCPUs.
        cpu_allocation_ratio=Policy().cpu_allocation_ratio * 4,
    )


@dataclass
class Held:
    """One claim, as the book has it. :ivar move: its last. :ivar born: when it was made."""

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
    def amounts(self) -> Counter[str]:
        pinned = "hw:cpu_policy" in self.flavor.extra_specs
        return Counter(
            vcpus=0 if pinned else self.flavor.vcpus,
            pcpus=self.flavor.vcpus if pinned else 0,
            memory_mb=self.flavor.memory_mb,
            disk_mb=self.flavor.root_gb * MB_IN_GB,
        )


def entered(claim: Claim, host: int) -> Held:
    """A claim, as it was answered."""
    place = claim.numa_topology
    return Held(
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
class Book:
    """:ivar held: by claim uuid. :ivar reuse: two claims of one owner here count as the larger."""

    reuse: bool
    held: dict[str, Held] = field(default_factory=dict)

    def at(self, host: int) -> dict[str, Held]:
        return {uuid: each for uuid, each in self.held.items() if each.host == host}

    def usage(self, host: int) -> Counter[str]:
        total: Counter[str] = Counter()
        owners: dict[str, list[Held]] = {}
        for each in self.at(host).values():
            owners.setdefault(each.owner, []).append(each)
        for mine in owners.values():
            sums: Counter[str] = Counter()
            for each in mine:
                sums = sums | each.amounts if self.reuse else sums + each.amounts
            total += sums
        return total

    def holders(self, host: int) -> dict[str, str]:
        """The owner of each CPU and device; fails where there are two."""
        owners: dict[str, str] = {}
        for each in self.at(host).values():
            for name in (*map(str, each.pins), *each.devices):
                assert owners.setdefault(name, each.owner) == each.owner, f"{name} has two owners"
        return owners


class Fleet:
    """Three agents, each in its process's part of a store: one disk for all, or one each."""

    def __init__(self, *, shared: bool = True, reuse: bool = False) -> None:
        self.clock = ManualClock()
        self.book, self.policy = Book(reuse), policy(reuse)
        disk = Disk()
        self.stores = [FailingStore(MemoryStore(disk if shared else Disk())) for _ in range(3)]
        self.worlds = [FakeHypervisor(TOPOLOGY, hostname=f"h{n}.example") for n in range(3)]
        for world in self.worlds:
            world.plug(gpu(GPU_0, 0), gpu(GPU_1, 1))
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

        def rule(records: Any) -> NodeRecord:
            known = [each for each in records if each.node.uuid == node.uuid]
            old = known[0] if known else NodeRecord(node=node, epoch=0, revision=0)
            return replace(old, epoch=old.epoch + 1)

        stored = store.enroll(node.uuid, node.hypervisor_hostname, rule)
        return ResourceTracker(store, self.clock, restored(stored, self.policy))

    def _auditor(self, number: int) -> Auditor:
        return Auditor(self.trackers[number], self.worlds[number], self.clock)

    def restart(self, number: int) -> None:
        """The agent dies and the next one begins; it sees its host first."""
        self.trackers[number] = self._start(number)
        self.auditors[number] = self._auditor(number)
        self.audit(number)

    def audit(self, number: int) -> None:
        assert self.auditors[number].run("test").complete

    def state(self, number: int) -> HostState:
        return self.trackers[number].snapshot()

    def check(self, *numbers: int) -> None:
        """These hosts hold what the book says, and a restart would find the same."""
        for number in numbers:
            state = self.state(number)
            state.check()
            told = {c.uuid: entered(c, number) for c in state.claims.values()}
            assert told == self.book.at(number)
            use = self.book.usage(number)
            seen = state.usage
            assert (seen.vcpus, seen.pcpus, seen.memory_mb, seen.disk_mb) == tuple(
                use[name] for name in ("vcpus", "pcpus", "memory_mb", "disk_mb")
            )
            holders = {name: owner for (_, name), owner in state.units.items()}
            assert holders == self.book.holders(number)
            stored = self.stores[number].load(state.node.uuid)
            assert {c.uuid: c for c in stored.claims} == dict(state.claims)
            assert {m.uuid: m for m in stored.migrations} == dict(state.migrations)
