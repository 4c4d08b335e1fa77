"""Assign devices to requests: bipartite matching, and the choice between physical and virtual
functions.

Matching alone distributes devices that are not related to each other, except that a provider may
give only as many devices as Placement allocated there. A physical function and its virtual
functions exclude each other. The choice of physical functions is found by trying, within a
limit that the caller sets.
"""

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence

from rtagent.model.base import Value
from rtagent.model.device import PciDevices
from rtagent.pci.device_users import virtual_functions
from rtagent.pci.requests import DeviceRequest

#: The devices that one request accepts, with their ranks. Lower ranks are preferred. Within a rank,
#: the devices are preferred in the order of the mapping.
Eligible = Mapping[str, int]

#: The rank of a device for each request, None where the request does not accept it; at the end, the
#: share of its provider. Devices with equal signatures are interchangeable.
_Signature = tuple[int | None, ...]


class DeviceShares(Value, frozen=True, kw_only=True):
    """The devices that Placement allocated to a consumer, as numbers by provider.

    A provider is named by an address: that of its device, or of the physical function whose virtual
    functions it counts.

    :ivar numbers: by provider: how many of its devices the claim gets. The claim gets exactly so
        many, and in addition only devices that are not reported to Placement.
    :ivar providers: the provider of each device that is reported, by the device's address.
    :ivar mapped: by request id: the providers from which the devices of a request come.
    """

    numbers: Mapping[str, int]
    providers: Mapping[str, str]
    mapped: Mapping[str, frozenset[str]] = {}

    @property
    def total(self) -> int:
        """The number of devices of all providers."""
        return sum(self.numbers.values())

    def accept(self, address: str, request: DeviceRequest) -> bool:
        """Return whether a request may get a device."""
        provider, mapped = self.providers.get(address), self.mapped.get(request.request_id)
        if provider is None:
            return mapped is None
        return self.number(address) > 0 and (mapped is None or provider in mapped)

    def is_reported(self, address: str) -> bool:
        """Return whether a device is reported to Placement."""
        return address in self.providers

    def number(self, address: str) -> int:
        """Return how many devices the claim gets of the provider of a device."""
        return self.numbers.get(self.providers.get(address, ""), 0)


def match(
    needs: Sequence[int], eligible: Sequence[Eligible], shares: DeviceShares | None = None
) -> list[list[str]]:
    """Return the devices of each request: as many in total as possible, the lowest ranks first.

    Ranks are filled one after the other, so that as many devices as possible have the lowest ranks.
    A request gives a device to another request if it can take another device of a rank that is
    already open.

    :param needs: the number of devices that each request needs. A request gets fewer only if there
        are not enough devices for all requests.
    :param shares: how many devices each provider may give; None: any number.
    """
    matching = _Matching(shares)
    missing = list(needs)
    for rank in sorted({rank for each in eligible for rank in each.values()}):
        open_now = [[device for device, at in each.items() if at <= rank] for each in eligible]
        for request in range(len(missing)):
            while missing[request] and matching.augment(request, open_now):
                missing[request] -= 1
    return [
        [device for device in each if matching.owners.get(device) == request]
        for request, each in enumerate(eligible)
    ]


class _Step(Value, frozen=True):
    """A step of an augmenting path: a request gives up a device so that another request can take
    one.

    :ivar given: the device that is given up. :ivar taken: the device that is taken: the same one,
        or a free one of the same provider, which can give no more devices.
    :ivar taker: the request that takes it.
    """

    given: str
    taken: str
    taker: int


class _Matching:
    """Devices and the requests that own them. :ivar owners: the request, by device."""

    def __init__(self, shares: DeviceShares | None) -> None:
        self.owners: dict[str, int] = {}
        self._shares = shares

    def augment(self, request: int, eligible: Sequence[Sequence[str]]) -> bool:
        """Assign one more device to the request, along the shortest augmenting path."""
        reached: dict[int, _Step] = {}
        queue = deque([request])
        while queue:
            taker = queue.popleft()
            for device in eligible[taker]:
                in_the_way = self._in_the_way(device)
                if not in_the_way:
                    self._reassign(device, taker, request, reached)
                    return True
                for given in in_the_way:
                    owner = self.owners[given]
                    if owner != request and owner not in reached:
                        reached[owner] = _Step(given, device, taker)
                        queue.append(owner)
        return False

    def _in_the_way(self, device: str) -> Sequence[str]:
        """Return the owned devices of which one must be given up before this one can be taken."""
        if device in self.owners:
            return (device,)
        if self._shares is None or not self._shares.is_reported(device):
            return ()
        provider = self._shares.providers[device]
        given = [each for each in self.owners if self._shares.providers.get(each) == provider]
        return given if len(given) >= self._shares.numbers.get(provider, 0) else ()

    def _reassign(
        self, device: str, taker: int, request: int, reached: Mapping[int, _Step]
    ) -> None:
        """Assign the device at the end of the path, and pass devices on back to the request."""
        self.owners[device] = taker
        while taker != request:
            step = reached[taker]
            if step.given != step.taken:
                del self.owners[step.given]
            self.owners[step.taken] = step.taker
            taker = step.taker


def function_choices(
    eligible: Sequence[Eligible],
    devices: PciDevices,
    limit: int,
    shares: DeviceShares | None = None,
) -> Iterator[list[dict[str, int]]]:
    """Yield the eligible devices for each choice of physical functions to assign.

    A choice excludes the virtual functions of the chosen physical functions, and the other
    contested physical functions. The fewest are chosen first. Of interchangeable physical functions
    only the number is varied.

    :param limit: the number of devices that all requests need. :param shares: as for `match`.
    """
    contested = _contested(eligible, devices)
    if not contested:  # mostly: there is nothing to choose
        yield [dict(each) for each in eligible]
        return
    groups = _interchangeable(eligible, contested, shares)
    for number in range(min(limit, len(contested)) + 1):
        for counts in _distributions(number, [len(group) for group in groups]):
            chosen = {pf for group, n in zip(groups, counts, strict=True) for pf in group[:n]}
            excluded = {vf for pf in chosen for vf in contested[pf]} | (contested.keys() - chosen)
            yield [
                {address: rank for address, rank in each.items() if address not in excluded}
                for each in eligible
            ]


def _contested(eligible: Sequence[Eligible], devices: PciDevices) -> dict[str, list[str]]:
    """Return the eligible virtual functions of each eligible physical function that has any."""
    addresses = dict.fromkeys(address for each in eligible for address in each)
    children = virtual_functions(devices)
    contested = {
        pf: [vf for vf in children[pf] if vf in addresses] for pf in addresses if pf in children
    }
    return {pf: vfs for pf, vfs in contested.items() if vfs}


def _interchangeable(
    eligible: Sequence[Eligible],
    contested: Mapping[str, Sequence[str]],
    shares: DeviceShares | None,
) -> list[list[str]]:
    """Group physical functions with equal signatures, including the signatures of their virtual
    functions.
    """

    def signature(address: str) -> _Signature:
        share = shares.number(address) if shares is not None else None
        return (*(each.get(address) for each in eligible), share)

    groups: dict[tuple[_Signature, frozenset[tuple[_Signature, int]]], list[str]] = {}
    for pf, vfs in contested.items():
        counted = frozenset(Counter(map(signature, vfs)).items())
        groups.setdefault((signature(pf), counted), []).append(pf)
    return list(groups.values())


def _distributions(number: int, sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield every way to take `number` elements from groups of these sizes."""
    if not sizes:
        if number == 0:
            yield ()
        return
    for here in range(min(number, sizes[0]), -1, -1):
        for rest in _distributions(number - here, sizes[1:]):
            yield (here, *rest)
