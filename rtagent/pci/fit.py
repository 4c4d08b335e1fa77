"""Fit the device requests of a claim: all requested devices, or no device and every reason.

The fit is pure and deterministic: equal arguments give equal results, so that a claim gets the
devices that a test of the claim has returned.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import UNSET

from rtagent.model.base import Value, made_from
from rtagent.model.decision import Reason, ReasonCode, Refused, refuse
from rtagent.model.device import AssignedDevice, PciDevice
from rtagent.model.policy import DeviceOrder
from rtagent.pci.allocations import DeviceAllocations
from rtagent.pci.candidates import GuestCells, candidates
from rtagent.pci.matching import DeviceShares, Eligible, function_choices, match
from rtagent.pci.pools import DeviceClass, device_classes
from rtagent.pci.requests import DeviceRequest

#: The maximum number of choices of physical functions to try.
MAX_CHOICES = 2000


class FittedDevices(Value, frozen=True):
    """All requested devices, in the order of the requests, then of addresses."""

    devices: tuple[AssignedDevice, ...]


def _not_reported(_: str) -> None:
    return None


class DeviceFit:
    """The device requests of one owner, fitted to one host for any number of guest placements.

    The search for host NUMA cells uses it to find the possible cells.

    :param where: the node's name, for refusals.
    :param provider_of: returns the uuid of the resource provider of a device, by address; None: it
        is not reported to Placement.
    :param sockets: the sockets of each NUMA cell of the host, by cell id.
    :param reusable: devices that the owner uses and may reuse (a move on one host), by address; the
        values are their purposes (`AssignedDevice.purpose`). An attach claim reuses no devices.
    :param shares: the devices that Placement allocated: all of them are assigned, and of reported
        devices no others. None: any devices.
    :param order: which of equal devices are preferred.
    """

    def __init__(
        self,
        requests: Sequence[DeviceRequest],
        allocations: DeviceAllocations,
        owner_id: str,
        *,
        where: str,
        provider_of: Callable[[str], str | None] = _not_reported,
        sockets: Mapping[int, frozenset[int]] | None = None,
        reusable: Mapping[str, str] | None = None,
        shares: DeviceShares | None = None,
        order: DeviceOrder = "first",
        max_choices: int = MAX_CHOICES,
    ) -> None:
        self._requests, self._devices, self._where = requests, allocations.devices, where
        self._sockets, self._max_choices = sockets or {}, max_choices
        self._provider_of = provider_of
        self._shares = shares
        self._candidates = candidates(
            requests, allocations, owner_id, reusable or {}, shares, order
        )
        self._results: dict[frozenset[int], FittedDevices | Refused] = {}

    def fit(self, cells: frozenset[int] = frozenset()) -> FittedDevices | Refused:
        """Return the devices for a guest on these host cells.

        :param cells: empty: the guest has no NUMA topology, and any NUMA node is accepted.
        """
        if cells not in self._results:
            guest = GuestCells(cells, self._sockets) if cells else None
            self._results[cells] = self._fit(guest)
        return self._results[cells]

    def weight(self, cell: int) -> int:
        """Return 0 for a host cell that should be tried early, else 1.

        For a guest that requests devices, cells with suitable devices come first. For any other
        guest, cells without devices come first, because guests with devices may need the other
        cells (LP2144660).
        """
        if not self._requests:
            return int(cell in _numa_nodes(device_classes(self._devices)))
        suitable = (each for request in self._candidates for each in request.available)
        return int(cell not in _numa_nodes(suitable))

    def possible(self, cells: frozenset[int]) -> bool:
        """Return whether a guest on these cells, or on a subset of them, may get its devices.

        A device that is near to a set of cells is near to every superset, so a refusal also applies
        to every subset.
        """
        result = self.fit(cells)
        return isinstance(result, FittedDevices) or any(
            reason.code == ReasonCode.UNDECIDED for reason in result.reasons
        )

    def refusal(self, cells: tuple[int, ...]) -> tuple[Reason, ...]:
        """Return why a guest on these cells cannot get its devices; empty: it can."""
        result = self.fit(frozenset(cells))
        return () if isinstance(result, FittedDevices) else result.reasons

    def _fit(self, guest: GuestCells | None) -> FittedDevices | Refused:
        needs = [request.count for request in self._requests]
        eligible = [each.near(guest, sum(needs)) for each in self._candidates]
        impossible = tuple(self._impossible(eligible, guest))
        if impossible:
            return refuse(impossible)
        choices = function_choices(eligible, self._devices, sum(needs), self._shares)
        best: list[list[str]] | None = None
        for choice in itertools.islice(choices, self._max_choices):
            matched = match(needs, choice, self._shares)
            if _complete(needs, matched) and not self._missing(matched):
                return FittedDevices(tuple(self._assigned(matched)))
            if best is None or _total(matched) > _total(best):
                best = matched
        code = ReasonCode.INSUFFICIENT if next(choices, None) is None else ReasonCode.UNDECIDED
        matched = best or [[] for _ in needs]
        return refuse((*self._incomplete(matched, code, guest), *self._not_assigned(matched, code)))

    def _impossible(
        self, eligible: Sequence[Eligible], guest: GuestCells | None
    ) -> Iterator[Reason]:
        """Yield the reasons of the requests that would fail even without the other requests."""
        for each, near in zip(self._candidates, eligible, strict=True):
            needed = each.request.count
            if each.total == 0:
                yield self._reason(ReasonCode.NOT_OFFERED, each.request, 0, None)
            elif each.total < needed:
                yield self._reason(ReasonCode.EXCEEDS_HOST, each.request, each.total, None)
            elif each.number < needed:
                yield self._reason(ReasonCode.INSUFFICIENT, each.request, each.number, None)
            elif len(near) < needed:
                yield self._reason(ReasonCode.INSUFFICIENT, each.request, len(near), guest)

    def _missing(self, matched: Sequence[Sequence[str]]) -> dict[str, int]:
        """Return the number of allocated devices that no request got, by provider."""
        if self._shares is None:
            return {}
        providers = self._shares.providers
        got = Counter(providers[a] for each in matched for a in each if a in providers)
        missing = Counter(self._shares.numbers)
        missing.subtract(got)
        return {provider: number for provider, number in missing.items() if number > 0}

    def _not_assigned(self, matched: Sequence[Sequence[str]], code: ReasonCode) -> Iterator[Reason]:
        """Yield a reason for each provider of which the claim cannot get what is allocated, if all
        requests could get their devices elsewhere.
        """
        if self._shares is None or not _complete([r.count for r in self._requests], matched):
            return
        for provider, number in self._missing(matched).items():
            allocated = self._shares.numbers[provider]
            yield Reason(
                code=code,
                resource="PCI allocated",
                where=f"{self._where} {provider}",
                requested=allocated,
                available=allocated - number,
                unit="devices",
            )

    def _incomplete(
        self, best: Sequence[Sequence[str]], code: ReasonCode, guest: GuestCells | None
    ) -> Iterator[Reason]:
        """Yield the reasons of the requests for which the other requests leave too few devices."""
        for each, matched in zip(self._candidates, best, strict=True):
            if len(matched) < each.request.count:
                yield self._reason(code, each.request, len(matched), guest)

    def _reason(
        self, code: ReasonCode, request: DeviceRequest, available: int, guest: GuestCells | None
    ) -> Reason:
        cells = f" cells {','.join(map(str, sorted(guest.cells)))}" if guest else ""
        return Reason(
            code=code,
            resource=request.resource,
            where=self._where + cells,
            requested=request.count,
            available=available,
            unit="devices",
        )

    def _assigned(self, matched: Sequence[Sequence[str]]) -> Iterator[AssignedDevice]:
        for request, addresses in zip(self._requests, matched, strict=True):
            for address in sorted(addresses):
                provider = self._provider_of(address)
                yield _assigned_device(self._devices[address], request, provider)


def addresses_by_purpose(devices: Iterable[AssignedDevice]) -> dict[str, tuple[str, ...]]:
    """Group addresses by purpose. A move replaces devices by others of the same purpose
    (LP1809095)."""
    found: dict[str, tuple[str, ...]] = {}
    for device in devices:
        found[device.purpose] = (*found.get(device.purpose, ()), device.address)
    return found


def _assigned_device(
    recorded: PciDevice, request: DeviceRequest, provider: str | None
) -> AssignedDevice:
    device = recorded.device
    return made_from(
        AssignedDevice,
        device,
        request,
        managed=recorded.tags.managed,
        net_name=device.net_name or UNSET,
        provider=provider,
    )


def _numa_nodes(classes: Iterable[DeviceClass]) -> frozenset[int | None]:
    return frozenset(each.example.device.numa_node for each in classes if each.example.listed)


def _complete(needs: Sequence[int], matched: Sequence[Sequence[str]]) -> bool:
    return all(len(devices) >= need for need, devices in zip(needs, matched, strict=True))


def _total(matched: Sequence[Sequence[str]]) -> int:
    return sum(map(len, matched))
