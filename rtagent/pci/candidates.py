"""Which devices would do for which request, by themselves and wherever the guest would be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter

from msgspec import UNSET

from rtagent.model.base import Value
from rtagent.model.device import FUNCTIONS, PciDevice
from rtagent.pci.affinity import POLICIES, Place
from rtagent.pci.kinds import Kind, kinds
from rtagent.pci.matching import Eligible
from rtagent.pci.request import DeviceRequest
from rtagent.pci.states import Holdings

#: Ranks of devices that the owner holds: for the same purpose, or for another; those
#: that are free come after, as near as they are.
KEPT, OWN, FREE = 0, 1, 2


class Candidates(Value, frozen=True, kw_only=True):
    """One request's.

    :ivar free: what it may have, by kinds, the one to take first at the head.
    :ivar own: ranks of those that the owner holds already, by address.
    :ivar there: how many of the host's devices are such, in whosever hands.
    """

    request: DeviceRequest
    free: tuple[Kind, ...]
    own: Mapping[str, int]
    there: int

    @property
    def number(self) -> int:
        """How many it may have."""
        return sum(len(kind.addresses) for kind in self.free)

    def near(self, place: Place | None, most: int) -> Eligible:
        """Those that are near enough to the guest, by address; with no place, all.

        :param most: how many devices are wanted in all: so many of a kind are as good as any.
        """
        policy = POLICIES[self.request.numa_policy]
        ranked: dict[str, int] = {}
        for kind in self.free:
            affinity = 0 if place is None else policy(kind.like.device.numa_node, place)
            if affinity is not None:
                ranked.update(dict.fromkeys(kind.addresses[:most], FREE + affinity))
                ranked.update((each, self.own[each]) for each in kind.addresses if each in self.own)
        return dict(sorted(ranked.items(), key=itemgetter(1)))


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
    left = holdings.available(owner_id, offered)
    return tuple(_of(request, holdings, left, offered) for request in requests)


def _of(
    request: DeviceRequest,
    holdings: Holdings,
    left: Iterable[Kind],
    offered: Mapping[str, str],
) -> Candidates:
    there = (kind for kind in kinds(holdings.devices) if _do(kind.like, request))
    free = (kind for kind in left if _do(kind.like, request))
    return Candidates(
        request=request,
        free=tuple(sorted(free, key=lambda kind: _order(kind.like, holdings))),
        own={
            address: KEPT if purpose == request.purpose else OWN
            for address, purpose in offered.items()
        },
        there=sum(len(kind.addresses) for kind in there),
    )


def _do(tracked: PciDevice, request: DeviceRequest) -> bool:
    return any(wanted.matches(tracked) for wanted in request.alternatives)


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
