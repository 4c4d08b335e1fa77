"""Candidate devices of a request, and their NUMA affinity to the guest."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import filterfalse
from operator import itemgetter
from typing import Final

from msgspec import UNSET
from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.model.derived import derived
from rtagent.model.device import VF_TYPES, DeviceCriteria, PciDevice, PciDevices
from rtagent.model.policy import DeviceOrder
from rtagent.pci.allocations import DeviceAllocations
from rtagent.pci.matching import DeviceShares, Eligible
from rtagent.pci.pools import DeviceClass, device_classes, last_first
from rtagent.pci.requests import DeviceRequest

#: The affinity of a device to its guest, best first: on one of the guest's cells; on a cell of the
#: same socket, or without a known NUMA node; elsewhere.
SAME_CELL: Final = 0
SAME_SOCKET: Final = 1
REMOTE: Final = 2

#: Ranks of devices that the owner already uses: for the same purpose, or for another one. The ranks
#: of free devices follow: `FREE` plus their affinity.
SAME_PURPOSE, OTHER_PURPOSE, FREE = 0, 1, 2

#: Added to the ranks of devices that are not reported to Placement, for a claim that follows an
#: allocation: the devices that were allocated come first, because the claim must get all of them.
NOT_ALLOCATED: Final = 100


class GuestCells(Value, frozen=True):
    """The host cells of a guest.

    :ivar cells: their ids.
    :ivar sockets: the sockets of every cell of the host, by cell id; a cell may span several
        sockets, or its sockets may be unknown.
    """

    cells: frozenset[int]
    sockets: Mapping[int, frozenset[int]]

    def shares_socket(self, node: int) -> bool:
        """Whether a NUMA node has a socket in common with one of the guest's cells."""
        sockets = self.sockets.get(node, frozenset())
        return any(sockets & self.sockets.get(cell, frozenset()) for cell in self.cells)


def required(node: int | None, guest: GuestCells) -> int | None:
    """Accept devices on the guest's cells."""
    return SAME_CELL if node in guest.cells else None


def legacy(node: int | None, guest: GuestCells) -> int | None:
    """Accept devices on the guest's cells, and devices without a known NUMA node."""
    return SAME_SOCKET if node is None else required(node, guest)


def preferred(node: int | None, guest: GuestCells) -> int | None:
    """Accept all devices; prefer those that `legacy` accepts."""
    affinity = legacy(node, guest)
    return REMOTE if affinity is None else affinity


def socket(node: int | None, guest: GuestCells) -> int | None:
    """Accept devices on the sockets of the guest's cells."""
    affinity = required(node, guest)
    if affinity is None and node is not None and guest.shares_socket(node):
        return SAME_SOCKET
    return affinity


#: The NUMA affinity policies: each returns the affinity of a device on a NUMA node, or None if the
#: policy does not accept it.
NUMA_POLICIES: Final[Mapping[str, Callable[[int | None, GuestCells], int | None]]] = {
    "required": required,
    "legacy": legacy,
    "preferred": preferred,
    "socket": socket,
}


class DeviceCandidates(Value, frozen=True, kw_only=True):
    """The candidate devices of one request.

    :ivar available: the devices available to the owner, by class, in the order of preference.
    :ivar reusable: ranks of the devices that the owner already uses, by address.
    :ivar total: the number of suitable devices on the host, used or not.
    :ivar shares: the devices that Placement allocated; None: the claim follows no allocation. The
        available devices are those that it accepts.
    """

    request: DeviceRequest
    available: tuple[DeviceClass, ...]
    reusable: Mapping[str, int]
    total: int
    shares: DeviceShares | None = None

    @property
    def number(self) -> int:
        """The number of devices that are available to the owner."""
        return sum(len(each.addresses) for each in self.available)

    def near(self, guest: GuestCells | None, limit: int) -> Eligible:
        """Return the devices that the NUMA policy accepts, with their ranks, best first.

        :param guest: None: the guest has no NUMA topology, and all devices are accepted.
        :param limit: the maximum number of devices of a class to return, which is the number of
            devices that all requests need.
        """
        policy = NUMA_POLICIES[self.request.numa_policy]
        ranks: dict[str, int] = {}
        for each in self.available:
            affinity = 0 if guest is None else policy(each.example.device.numa_node, guest)
            if affinity is not None:
                for offset, addresses in self._by_offset(each.addresses):
                    ranks.update(dict.fromkeys(addresses[:limit], offset + FREE + affinity))
                    # Of a new owner there are none: then no address is looked up.
                    reused = addresses if self.reusable else ()
                    ranks.update(
                        (address, offset + self.reusable[address])
                        for address in reused
                        if address in self.reusable
                    )
        return dict(sorted(ranks.items(), key=itemgetter(1)))

    def _by_offset(self, addresses: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield the devices with what is added to their ranks."""
        if self.shares is None:
            yield 0, addresses
            return
        yield 0, tuple(filter(self.shares.is_reported, addresses))
        yield NOT_ALLOCATED, tuple(filterfalse(self.shares.is_reported, addresses))


def candidates(
    requests: Sequence[DeviceRequest],
    allocations: DeviceAllocations,
    owner_id: str,
    reusable: Mapping[str, str],
    shares: DeviceShares | None = None,
    order: DeviceOrder = "first",
) -> tuple[DeviceCandidates, ...]:
    """Return the candidates of each request.

    :param reusable: the purposes of devices that the owner uses and may reuse, by address.
    :param shares: see `DeviceCandidates`. :param order: of equal devices.
    """
    available = allocations.available(owner_id, reusable) if requests else ()
    if order == "last":
        available = last_first(available)
    return tuple(
        _candidates(request, allocations, available, reusable, shares) for request in requests
    )


def _candidates(
    request: DeviceRequest,
    allocations: DeviceAllocations,
    available: Iterable[DeviceClass],
    reusable: Mapping[str, str],
    shares: DeviceShares | None,
) -> DeviceCandidates:
    examples, total = _suitable(allocations.devices)(request.alternatives)
    fitting = tuple(each for each in available if each.example.address in examples)
    if shares is not None:
        fitting = tuple(_accepted(fitting, request, shares))
    return DeviceCandidates(
        request=request,
        available=tuple(sorted(fitting, key=lambda each: _preference(each.example, allocations))),
        reusable={
            address: SAME_PURPOSE if purpose == request.purpose else OTHER_PURPOSE
            for address, purpose in reusable.items()
        },
        total=total,
        shares=shares,
    )


@derived
def _suitable(
    devices: PciDevices,
) -> Callable[[tuple[DeviceCriteria, ...]], tuple[frozenset[str], int]]:
    """Return the function that finds the classes of recorded devices that meet one of several
    alternatives: the addresses of their examples, and the number of their devices.

    It remembers what it found, because most requests name one of a few aliases. It must not refer
    to `devices`, of which it is a view.
    """
    classes = device_classes(devices)

    @lru_cache(maxsize=64)
    def find(alternatives: tuple[DeviceCriteria, ...]) -> tuple[frozenset[str], int]:
        suitable = [each for each in classes if suits(each.example, alternatives)]
        examples = frozenset(each.example.address for each in suitable)
        return examples, sum(len(each.addresses) for each in suitable)

    return find


def _accepted(
    classes: Iterable[DeviceClass], request: DeviceRequest, shares: DeviceShares
) -> Iterator[DeviceClass]:
    """Yield the classes with the devices that the shares allow the request to get."""
    for each in classes:
        addresses = tuple(a for a in each.addresses if shares.accept(a, request))
        if addresses:
            yield replace(each, addresses=addresses)


def suits(recorded: PciDevice, alternatives: Iterable[DeviceCriteria]) -> bool:
    """Return whether a device meets one of several criteria."""
    return any(criteria.matches(recorded) for criteria in alternatives)


def _preference(recorded: PciDevice, allocations: DeviceAllocations) -> tuple[int, bool]:
    """Return a sort key. The devices that other requests are most likely to need come last.

    These are devices with many tags, and virtual functions whose physical function has no virtual
    function in use.
    """
    tags, parent = recorded.tags, recorded.device.parent_addr
    tag_count = (
        (tags.physical_network is not UNSET)
        + tags.trusted
        + tags.live_migratable
        + (tags.resource_class is not None)
        + len(tags.traits)
    )
    first_vf = (
        recorded.device.dev_type in VF_TYPES
        and parent is not None
        and parent in allocations.devices
        and not allocations.has_used_vf(parent)
    )
    return tag_count, first_vf
