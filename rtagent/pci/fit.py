"""Which devices a claim gets: all that it asks for, or none and every reason.

Pure and stable: the same arguments give the same answer, so that what was tested is what is
granted. Requests share devices out by matching; only physical functions against their own virtual
ones are searched, within a bound.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rtagent.model.base import Value
from rtagent.model.decision import Reason, ReasonCode, Refused, refuse
from rtagent.model.device import AssignedDevice, PciDevice
from rtagent.pci.affinity import Place
from rtagent.pci.candidates import candidates
from rtagent.pci.functions import divisions
from rtagent.pci.kinds import Kind, kinds
from rtagent.pci.matching import Eligible, match
from rtagent.pci.request import DeviceRequest
from rtagent.pci.states import Holdings

#: Ways to give out physical functions that are tried at most.
STEPS = 2000


class Fitted(Value, frozen=True):
    """All of them, in the order of the requests, then of addresses."""

    devices: tuple[AssignedDevice, ...]


class DeviceFit:
    """What one owner asks for, on one host. It may be asked about many placements.

    It is also what the search for a NUMA placement asks about its cells.

    :param where: the node's name, for refusals.
    :param sockets: of each NUMA cell of the host, by its id.
    :param offered: devices that the owner holds and may share with himself (a move on one host),
        by address: the purpose of each (`AssignedDevice.purpose`). A claim that adds devices to
        those that the owner has is offered none.
    """

    def __init__(
        self,
        requests: Sequence[DeviceRequest],
        holdings: Holdings,
        owner_id: str,
        *,
        where: str,
        sockets: Mapping[int, frozenset[int]] | None = None,
        offered: Mapping[str, str] | None = None,
        steps: int = STEPS,
    ) -> None:
        self._requests, self._holdings, self._where = requests, holdings, where
        self._sockets, self._steps = sockets or {}, steps
        self._candidates = candidates(requests, holdings, owner_id, offered or {})
        self._answers: dict[frozenset[int], Fitted | Refused] = {}

    def fit(self, cells: frozenset[int] = frozenset()) -> Fitted | Refused:
        """The devices for a guest on these cells.

        :param cells: of the host; none: the guest has no NUMA topology, and no device is far.
        """
        if cells not in self._answers:
            self._answers[cells] = self._fit(Place(cells, self._sockets) if cells else None)
        return self._answers[cells]

    def weight(self, cell: int) -> int:
        """0 for cells to be tried first: those with devices that are asked for; for a guest that
        asks for none, those without any, which others may need to be near (LP2144660)."""
        if not self._requests:
            return int(cell in _nodes(kinds(self._holdings.devices)))
        return int(cell not in _nodes(kind for each in self._candidates for kind in each.free))

    def possible(self, cells: frozenset[int]) -> bool:
        """Whether a guest on these cells, or on some of them, may get its devices. More cells never
        make fewer devices near, so that a refusal holds for every part of them."""
        answer = self.fit(cells)
        return isinstance(answer, Fitted) or _undecided(answer)

    def refusal(self, cells: tuple[int, ...]) -> tuple[Reason, ...]:
        """Why a guest on these cells cannot have its devices; empty when it can."""
        answer = self.fit(frozenset(cells))
        return () if isinstance(answer, Fitted) else answer.reasons

    def _fit(self, place: Place | None) -> Fitted | Refused:
        needs = [request.count for request in self._requests]
        eligible = [each.near(place, sum(needs)) for each in self._candidates]
        short = tuple(self._short(eligible, place))
        if short:
            return refuse(short)
        ways = divisions(eligible, self._holdings.devices, sum(needs))
        best: list[list[str]] | None = None
        for way in itertools.islice(ways, self._steps):
            shared = match(needs, way)
            if _enough(needs, shared):
                return Fitted(tuple(self._assigned(shared)))
            if best is None or _total(shared) > _total(best):
                best = shared
        undecided = next(ways, None) is not None
        return refuse(self._unserved(best or [[] for _ in needs], undecided, place))

    def _short(self, eligible: Sequence[Eligible], place: Place | None) -> Iterator[Reason]:
        """Requests that could not be served if they were alone."""
        for each, near in zip(self._candidates, eligible, strict=True):
            wanted = each.request.count
            if each.there == 0:
                yield self._reason(ReasonCode.NOT_OFFERED, each.request, 0, None)
            elif each.there < wanted:
                yield self._reason(ReasonCode.EXCEEDS_HOST, each.request, each.there, None)
            elif each.number < wanted:
                yield self._reason(ReasonCode.INSUFFICIENT, each.request, each.number, None)
            elif len(near) < wanted:
                yield self._reason(ReasonCode.INSUFFICIENT, each.request, len(near), place)

    def _unserved(
        self, best: Sequence[Sequence[str]], undecided: bool, place: Place | None
    ) -> Iterator[Reason]:
        """Requests that the others leave too few for."""
        code = ReasonCode.UNDECIDED if undecided else ReasonCode.INSUFFICIENT
        for each, got in zip(self._candidates, best, strict=True):
            if len(got) < each.request.count:
                yield self._reason(code, each.request, len(got), place)

    def _reason(
        self, code: ReasonCode, request: DeviceRequest, available: int, place: Place | None
    ) -> Reason:
        cells = f" cells {','.join(map(str, sorted(place.cells)))}" if place else ""
        return Reason(
            code=code,
            resource=request.resource,
            where=self._where + cells,
            requested=request.count,
            available=available,
            unit="devices",
        )

    def _assigned(self, shared: Sequence[Sequence[str]]) -> Iterator[AssignedDevice]:
        for request, addresses in zip(self._requests, shared, strict=True):
            for address in sorted(addresses):
                yield assigned(self._holdings.devices[address], request)


def assigned(tracked: PciDevice, request: DeviceRequest) -> AssignedDevice:
    """The device as the claim will hold it."""
    device = tracked.device
    return AssignedDevice(
        address=device.address,
        vendor_id=device.vendor_id,
        product_id=device.product_id,
        dev_type=device.dev_type,
        request_id=request.request_id,
        alias_name=request.alias_name,
        requester_id=request.requester_id,
        source=request.source,
        numa_node=device.numa_node,
        parent_addr=device.parent_addr,
        managed=tracked.tags.managed,
        vdpa_dev=device.vdpa_dev,
    )


def by_purpose(devices: Iterable[AssignedDevice]) -> dict[str, tuple[str, ...]]:
    """Addresses, by purpose: in a move, devices of one purpose take each other's place
    (LP1809095)."""
    found: dict[str, tuple[str, ...]] = {}
    for device in devices:
        found[device.purpose] = (*found.get(device.purpose, ()), device.address)
    return found


def _nodes(of: Iterable[Kind]) -> frozenset[int | None]:
    return frozenset(kind.like.device.numa_node for kind in of if kind.like.listed)


def _enough(needs: Sequence[int], shared: Sequence[Sequence[str]]) -> bool:
    return all(len(got) >= need for need, got in zip(needs, shared, strict=True))


def _total(shared: Sequence[Sequence[str]]) -> int:
    return sum(map(len, shared))


def _undecided(answer: Refused) -> bool:
    return any(reason.code == ReasonCode.UNDECIDED for reason in answer.reasons)


__all__ = ["STEPS", "DeviceFit", "Fitted", "assigned", "by_purpose"]
