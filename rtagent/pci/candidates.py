"""Which devices would do for which request, by themselves and wherever the guest would be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import UNSET

from rtagent.model.base import Value
from rtagent.model.device import FUNCTIONS, PciDevice
from rtagent.pci.affinity import POLICIES, Place
from rtagent.pci.matching import Eligible
from rtagent.pci.request import DeviceRequest
from rtagent.pci.states import Holdings

#: Ranks of devices that the owner holds: for the same purpose, or for another; those
#: that are free come after, as near as they are.
KEPT, OWN, FREE = 0, 1, 2


class Candidates(Value, frozen=True):
    """One request's.

    :ivar free: devices that it may have, the one to take first at the head, each with its rank.
    :ivar there: how many of the host's devices are such, in whosever hands.
    """

    request: DeviceRequest
    free: tuple[tuple[PciDevice, int], ...]
    there: int

    def near(self, place: Place | None) -> Eligible:
        """Those that are near enough to the guest, by address; with no place, all."""
        policy = POLICIES[self.request.numa_policy]
        ranked: dict[str, int] = {}
        for tracked, rank in self.free:
            affinity = 0 if place is None else policy(tracked.device.numa_node, place)
            if affinity is not None:
                ranked[tracked.address] = rank if rank < FREE else rank + affinity
        return dict(sorted(ranked.items(), key=lambda item: item[1]))


def candidates(
    requests: Sequence[DeviceRequest],
    holdings: Holdings,
    owner_id: str,
    offered: Mapping[str, str],
) -> tuple[Candidates, ...]:
    """For each request.

    :param offered: devices that the owner holds and may share with himself, by address: the purpose
        of each.
    """
    return tuple(_of(request, holdings, owner_id, offered) for request in requests)


def _of(
    request: DeviceRequest, holdings: Holdings, owner_id: str, offered: Mapping[str, str]
) -> Candidates:
    there = [tracked for tracked in holdings.devices.values() if _do(tracked, request)]
    free = [each for each in there if _to_be_had(each.address, holdings, owner_id, offered)]
    free.sort(key=lambda tracked: _order(tracked, holdings))
    ranked = tuple((tracked, _rank(tracked, request, offered)) for tracked in free)
    return Candidates(request, ranked, len(there))


def _do(tracked: PciDevice, request: DeviceRequest) -> bool:
    return any(wanted.matches(tracked) for wanted in request.alternatives)


def _to_be_had(address: str, holdings: Holdings, owner_id: str, offered: Mapping[str, str]) -> bool:
    for hold in holdings.holds_of(address):
        if hold.owner_id != owner_id or address not in offered:
            return False
    return holdings.obstacle(address, owner_id) is None


def _rank(tracked: PciDevice, request: DeviceRequest, offered: Mapping[str, str]) -> int:
    given = offered.get(tracked.address)
    if given is None:
        return FREE
    return KEPT if given == request.purpose else OWN


def _order(tracked: PciDevice, holdings: Holdings) -> tuple[int, bool, str]:
    """What others may need most is taken last: devices of which much is said, and the virtual
    functions of a physical one that is still whole."""
    tags, parent = tracked.tags, tracked.device.parent_addr
    said = (
        (tags.physical_network is not UNSET)
        + tags.trusted
        + tags.live_migratable
        + (tags.resource_class is not None)
        + len(tags.traits)
    )
    whole = (
        tracked.device.dev_type in FUNCTIONS
        and parent is not None
        and parent in holdings.devices
        and not holdings.broken(parent)
    )
    return said, whole, tracked.address
