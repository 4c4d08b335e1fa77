"""A model of a host's devices: claims as they were answered, domains and devices as they were
seen, and the operator's options. It does not use the product's states, folds or plans."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID, uuid5

from msgspec.structs import replace

from rtagent.model.device import Device, MdevType
from tests.support.hosts import NODE
from tests.support.pci_hosts import GPU_0, GPU_1, PF_0, PF_1, gpu, nic

VGPU_TYPE = "nvidia-11"
#: How many mediated devices each of the cards below supports.
MDEVS_PER_CARD = 2
CARDS = ("0000:c1:00.0", "0000:c2:00.0")
NAMESPACES = ("ns0", "ns1")


def card(address: str, free: int = MDEVS_PER_CARD) -> Device:
    """Return a device that supports mediated devices."""
    supported = MdevType(id=VGPU_TYPE, device_api="vfio-pci", available_instances=free)
    return replace(gpu(address, 0), product_id="1eb8", mdev_types=(supported,))


#: All devices that can be plugged in; the second and the third share an IOMMU group.
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


def functions(address: str) -> set[str]:
    """Return the virtual functions of a card, or the card of a virtual function."""
    parent = HARDWARE[address].parent_addr
    return {a for a, d in HARDWARE.items() if d.parent_addr == address or a == parent}


def group(address: str) -> set[str]:
    """Return the other members of its IOMMU group."""
    number = HARDWARE[address].iommu_group
    return {a for a, d in HARDWARE.items() if number and d.iommu_group == number} - {address}


def mdev_uuid(identifier: str) -> str:
    """Return the uuid of the mediated device for an identifier."""
    return str(uuid5(UUID(NODE.uuid), identifier))


#: The identifiers of mediated devices, by uuid.
IDENTIFIERS = {
    mdev_uuid(name): name
    for name in (f"{address}/{VGPU_TYPE}/{n}" for address in CARDS for n in range(8))
}


@dataclass
class ModelClaim:
    """A claim as its caller knows it. :ivar lapses: when its lease ends."""

    owner: str
    kind: str
    state: str
    devices: frozenset[str]
    resources: frozenset[str]
    cells: frozenset[int]
    lapses: float


@dataclass
class ModelDevice:
    """A device as it was last seen, with what the operator has set for it."""

    product: str
    one_time_use: bool = False
    present: bool = True
    listed: bool = True
    quarantined: bool = False

    @property
    def fields(self) -> tuple[object, ...]:
        return (self.product, self.one_time_use, self.present, self.listed, self.quarantined)


@dataclass
class ModelUsage:
    """What a domain uses beyond its owner's claims. :ivar parents: of its mediated devices."""

    devices: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    parents: frozenset[str] = frozenset()


@dataclass
class DeviceModel:
    """The host.

    :ivar claims: by uuid. :ivar foreign: by domain, as of the last audit.
    :ivar devices: by address, as of the last audit that could list devices.
    :ivar mdevs: how many mediated devices a card supports for this agent, likewise.
    :ivar namespaces: as of the last audit.
    """

    claims: dict[str, ModelClaim] = field(default_factory=dict)
    foreign: dict[str, ModelUsage] = field(default_factory=dict)
    devices: dict[str, ModelDevice] = field(default_factory=dict)
    mdevs: dict[str, int] = field(default_factory=dict)
    namespaces: tuple[str, ...] = ()

    def claims_of(self, owner: str, kind: str | None = None) -> dict[str, ModelClaim]:
        return {
            uuid: claim
            for uuid, claim in self.claims.items()
            if claim.owner == owner and kind in (None, claim.kind)
        }

    def claimed(self) -> set[str]:
        """Return the addresses of claimed devices."""
        return {address for claim in self.claims.values() for address in claim.devices}

    def used(self) -> set[str]:
        """Return the addresses of devices that domains use beyond their claims."""
        return {address for usage in self.foreign.values() for address in usage.devices}

    # --- owners and availability ---

    def owners_of(self, address: str) -> set[str]:
        owners = {claim.owner for claim in self.claims.values() if address in claim.devices}
        return owners | {owner for owner, used in self.foreign.items() if address in used.devices}

    def owners_of_mdevs(self, address: str) -> set[str]:
        """Return the owners of the mediated devices of a card."""
        owners = {c.owner for c in self.claims.values() if _on(address, c.resources)}
        return owners | {owner for owner, used in self.foreign.items() if address in used.parents}

    def available(self, address: str, owner: str | None) -> bool:
        """Whether an owner can get the device.

        Its domain may use the device already, but no mediated devices of it: a whole device is
        assigned only without these.
        """
        device = self.devices.get(address)
        if device is None or not device.present or not device.listed or device.quarantined:
            return False
        return (
            address not in self.claimed()
            and not self.owners_of(address) - {owner}
            and not self.owners_of_mdevs(address)
            and not any(
                self.owners_of(other) for other in functions(address) if self._related(other)
            )
            and not any(
                self.owners_of(other) - {owner} for other in group(address) if other in self.devices
            )
        )

    def _related(self, function: str) -> bool:
        """Whether the relation is known: a virtual function's parent is, once it was listed."""
        return function in self.devices or HARDWARE[function].parent_addr is None

    def free_mdevs(self, address: str, owner: str) -> int:
        """Return how many mediated devices of a card this owner can get."""
        if address not in self.mdevs or self.owners_of(address):
            return 0
        used = {name for c in self.claims.values() for name in _on(address, c.resources)}
        own = set[str]()
        for other, usage in self.foreign.items():
            (own if other == owner else used).update(_on(address, usage.resources))
        free = max(0, self.mdevs[address] - len(used))
        device = self.devices.get(address)
        # Of a quarantined card, an owner gets only what its domain already uses.
        quarantined = device is not None and device.quarantined
        return min(free, len(own - used)) if quarantined else free

    def free_namespaces(self, owner: str) -> int:
        used = {name for claim in self.claims.values() for name in claim.resources}
        for other, usage in self.foreign.items():
            used |= usage.resources if other != owner else set()
        return len(set(self.namespaces) - used)

    def fits(
        self,
        owner: str,
        requested: Mapping[str, int],
        placements: Iterable[frozenset[int]] = (frozenset(),),
        vgpus: int = 0,
        namespaces: int = 0,
    ) -> bool:
        """Try every combination of devices, and every card for the mediated devices.

        :param placements: the sets of cells of which the guest may have any.
        """
        parents = [card for card in CARDS if vgpus and self.free_mdevs(card, owner) >= vgpus]
        return namespaces <= self.free_namespaces(owner) and any(
            not {parent} & chosen
            for cells in placements
            for chosen in self._choices(owner, requested, cells)
            for parent in (parents if vgpus else [None])
        )

    def _choices(
        self, owner: str, requested: Mapping[str, int], cells: frozenset[int]
    ) -> Iterator[set[str]]:
        pools = [
            itertools.combinations(
                [
                    address
                    for address, device in self.devices.items()
                    if device.product == PRODUCTS[name]
                    and (not cells or HARDWARE[address].numa_node in cells)
                    and self.available(address, owner)
                ],
                count,
            )
            for name, count in requested.items()
        ]
        for parts in itertools.product(*pools):
            chosen = {address for part in parts for address in part}
            if not any(functions(address) & chosen for address in chosen):
                yield chosen

    def available_counts(self) -> Counter[tuple[str, int | None]]:
        """Return the number of available devices by product and NUMA node."""
        return Counter(
            (device.product, HARDWARE[address].numa_node)
            for address, device in self.devices.items()
            if self.available(address, None)
        )

    # --- releases ---

    def quarantine_released(self, used_before: set[str]) -> None:
        """Quarantine the one-time devices that were in use before and are not any more."""
        for address in used_before - self.claimed() - self.used():
            if address in self.devices and self.devices[address].one_time_use:
                self.devices[address].quarantined = True

    def end(self, uuids: Iterable[str]) -> None:
        """End these claims; the attach claims of an owner end with its build claim."""
        for uuid in list(uuids):
            claim = self.claims.pop(uuid, None)
            if claim is not None and claim.kind == "build":
                for other in self.claims_of(claim.owner):
                    del self.claims[other]


def _on(address: str, identifiers: Iterable[str]) -> set[str]:
    return {name for name in identifiers if name.startswith(f"{address}/")}
