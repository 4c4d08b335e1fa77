"""A host's devices as a book-keeper would have them: who was told that he has what, who was seen to
use what, and what an operator says. It knows nothing of the product's states, folds or plans."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID, uuid5

from msgspec.structs import replace

from rtagent.model.device import Device, MdevType
from tests.builders import NODE
from tests.pci_hosts import GPU_0, GPU_1, PF_0, PF_1, gpu, nic

VGPU_TYPE = "nvidia-11"
#: How many mediated devices each of the cards below makes.
PARTS = 2
CARDS = ("0000:c1:00.0", "0000:c2:00.0")
NAMESPACES = ("ns0", "ns1")


def card(address: str, free: int = PARTS) -> Device:
    """One that makes mediated devices."""
    made = MdevType(id=VGPU_TYPE, device_api="vfio-pci", available_instances=free)
    return replace(gpu(address, 0), product_id="1eb8", mdev_types=(made,))


#: All that can ever be plugged in; the second and the third share an IOMMU group.
HARDWARE = {
    device.address: device
    for device in (
        gpu(GPU_0, 0, iommu_group=1),
        gpu(GPU_1, 1, iommu_group=2),
        gpu("0000:89:00.0", 1, iommu_group=2),
        *nic(PF_0, 3, 0),
        *nic(PF_1, 1, 1),
        *map(card, CARDS),
    )
}
PRODUCTS = {"gpu": "13f1", "pf": "1583", "vf": "154c", "card": "1eb8"}
NAMES = {product: name for name, product in PRODUCTS.items()}


def kin(address: str) -> set[str]:
    """A card's virtual functions, or a virtual function's card."""
    parent = HARDWARE[address].parent_addr
    return {a for a, d in HARDWARE.items() if d.parent_addr == address or a == parent}


def group(address: str) -> set[str]:
    """The others of its IOMMU group."""
    mine = HARDWARE[address].iommu_group
    return {a for a, d in HARDWARE.items() if mine and d.iommu_group == mine} - {address}


def member_uuid(identifier: str) -> str:
    """Of the mediated device that a member stands for."""
    return str(uuid5(UUID(NODE.uuid), identifier))


MEMBERS = {
    member_uuid(name): name
    for name in (f"{address}/{VGPU_TYPE}/{n}" for address in CARDS for n in range(8))
}


@dataclass
class Held:
    """A claim, as its caller knows it. :ivar lapses: when its lease ends."""

    owner: str
    kind: str
    state: str
    devices: frozenset[str]
    members: frozenset[str]
    cells: frozenset[int]
    lapses: float


@dataclass
class Line:
    """Of a device: what it was when last seen, and what the operator says of it."""

    product: str
    once: bool = False
    present: bool = True
    listed: bool = True
    back: bool = False

    @property
    def told(self) -> tuple[object, ...]:
        return (self.product, self.once, self.present, self.listed, self.back)


@dataclass
class Used:
    """By a domain, beside what its owner's claims say. :ivar cards: that make what it has."""

    devices: frozenset[str] = frozenset()
    members: frozenset[str] = frozenset()
    cards: frozenset[str] = frozenset()


@dataclass
class Book:
    """:ivar claims: by uuid. :ivar foreign: by domain, as the last audit saw it.
    :ivar lines: devices by address, as the last audit that could list them saw them.
    :ivar made: how many mediated devices a card can make for us, likewise.
    :ivar namespaces: as of the last audit.
    """

    claims: dict[str, Held] = field(default_factory=dict)
    foreign: dict[str, Used] = field(default_factory=dict)
    lines: dict[str, Line] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)
    namespaces: tuple[str, ...] = ()

    def of(self, owner: str, kind: str | None = None) -> dict[str, Held]:
        return {
            uuid: held
            for uuid, held in self.claims.items()
            if held.owner == owner and kind in (None, held.kind)
        }

    def claimed(self) -> set[str]:
        """Devices."""
        return {address for held in self.claims.values() for address in held.devices}

    def used(self) -> set[str]:
        return {address for used in self.foreign.values() for address in used.devices}

    # -- who has what -----------------------------------------------------------------------------

    def owners_of(self, address: str) -> set[str]:
        owners = {held.owner for held in self.claims.values() if address in held.devices}
        return owners | {owner for owner, used in self.foreign.items() if address in used.devices}

    def owners_of_parts(self, address: str) -> set[str]:
        owners = {h.owner for h in self.claims.values() if _on(address, h.members)}
        return owners | {owner for owner, used in self.foreign.items() if address in used.cards}

    def may_have(self, address: str, owner: str | None) -> bool:
        """Whether nothing speaks against giving it to him, who may use it already."""
        line = self.lines.get(address)
        if line is None or not line.present or not line.listed or line.back:
            return False
        return (
            address not in self.claimed()
            and not (self.owners_of(address) | self.owners_of_parts(address)) - {owner}
            and not (owner is None and self.owners_of_parts(address))
            and not any(self.owners_of(other) for other in kin(address) if self._known(other))
            and not any(
                self.owners_of(other) - {owner} for other in group(address) if other in self.lines
            )
        )

    def _known(self, relative: str) -> bool:
        """Whose child a device is, is known when it has been listed."""
        return relative in self.lines or HARDWARE[relative].parent_addr is None

    def free_parts(self, address: str, owner: str) -> int:
        """How many of a card's mediated devices this owner may have."""
        if address not in self.made or self.owners_of(address):
            return 0
        held = {name for h in self.claims.values() for name in _on(address, h.members)}
        for other, used in self.foreign.items():
            held |= _on(address, used.members) if other != owner else set()
        return max(0, self.made[address] - len(held))

    def free_namespaces(self) -> int:
        held = {name for h in self.claims.values() for name in h.members}
        return len(set(self.namespaces) - held)

    # -- what would do ----------------------------------------------------------------------------

    def fits(
        self,
        owner: str,
        asked: Mapping[str, int],
        cells: Iterable[frozenset[int]] = (frozenset(),),
        vgpus: int = 0,
        namespaces: int = 0,
    ) -> bool:
        """By trying everything. :param cells: places of which the guest may have any."""
        return (
            (not vgpus or any(self.free_parts(address, owner) >= vgpus for address in CARDS))
            and namespaces <= self.free_namespaces()
            and any(self._near(owner, asked, place) for place in cells)
        )

    def _near(self, owner: str, asked: Mapping[str, int], cells: frozenset[int]) -> bool:
        return any(True for _ in self._ways(owner, asked, cells))

    def _ways(
        self, owner: str, asked: Mapping[str, int], cells: frozenset[int]
    ) -> Iterator[set[str]]:
        pools = [
            itertools.combinations(
                [
                    address
                    for address, line in self.lines.items()
                    if line.product == PRODUCTS[name]
                    and (not cells or HARDWARE[address].numa_node in cells)
                    and self.may_have(address, owner)
                ],
                count,
            )
            for name, count in asked.items()
        ]
        for parts in itertools.product(*pools):
            chosen = {address for part in parts for address in part}
            if not any(kin(address) & chosen for address in chosen):
                yield chosen

    def available(self) -> Counter[tuple[str, int | None]]:
        """How many of each make and node anybody may have."""
        return Counter(
            (line.product, HARDWARE[address].numa_node)
            for address, line in self.lines.items()
            if self.may_have(address, None)
        )

    # -- what is let go of ------------------------------------------------------------------------

    def freed(self, before: set[str]) -> None:
        """What was held before and is no more is kept back, if it is for one use."""
        for address in before - self.claimed() - self.used():
            if address in self.lines and self.lines[address].once:
                self.lines[address].back = True

    def end(self, uuids: Iterable[str]) -> None:
        """These claims are over; those that added devices end with the one they were added to."""
        for uuid in list(uuids):
            held = self.claims.pop(uuid, None)
            if held is not None and held.kind == "build":
                for other in self.of(held.owner):
                    del self.claims[other]


def _on(address: str, members: Iterable[str]) -> set[str]:
    return {name for name in members if name.startswith(f"{address}/")}
