"""Assign devices to requests: bipartite matching, and the choice between physical and virtual
functions.

Matching alone distributes devices that are not related to each other. A physical function and its
virtual functions exclude each other. The choice of physical functions is found by trying, within a
limit that the caller sets.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence

from rtagent.model.pci_devices import PciDevices
from rtagent.pci.relations import virtual_functions

#: The devices that one request accepts, with their ranks. Lower ranks are preferred. Within a rank,
#: the devices are preferred in the order of the mapping.
Eligible = Mapping[str, int]

#: The rank of a device for each request; None where the request does not accept it. Devices with
#: equal signatures are interchangeable.
_Signature = tuple[int | None, ...]


def match(needs: Sequence[int], eligible: Sequence[Eligible]) -> list[list[str]]:
    """Return the devices of each request: as many in total as possible, the lowest ranks first.

    Ranks are filled one after the other, so that as many devices as possible have the lowest ranks.
    A request gives a device to another request if it can take another device of a rank that is
    already open.

    :param needs: the number of devices that each request needs. A request gets fewer only if there
        are not enough devices for all requests.
    """
    owners: dict[str, int] = {}
    missing = list(needs)
    for rank in sorted({rank for each in eligible for rank in each.values()}):
        open_now = [[device for device, at in each.items() if at <= rank] for each in eligible]
        for request in range(len(missing)):
            while missing[request] and _augment(request, open_now, owners):
                missing[request] -= 1
    return [
        [device for device in each if owners.get(device) == request]
        for request, each in enumerate(eligible)
    ]


def _augment(request: int, eligible: Sequence[Sequence[str]], owners: dict[str, int]) -> bool:
    """Assign one more device to the request, along the shortest augmenting path."""
    reached: dict[int, tuple[str, int]] = {}
    queue = deque([request])
    while queue:
        taker = queue.popleft()
        for device in eligible[taker]:
            owner = owners.get(device)
            if owner is None:
                _reassign(device, taker, request, reached, owners)
                return True
            if owner != request and owner not in reached:
                reached[owner] = (device, taker)
                queue.append(owner)
    return False


def _reassign(
    device: str,
    taker: int,
    request: int,
    reached: Mapping[int, tuple[str, int]],
    owners: dict[str, int],
) -> None:
    """Assign the free device at the end of the path, and pass devices on back to the request."""
    owners[device] = taker
    while taker != request:
        given, to = reached[taker]
        owners[given] = to
        taker = to


def function_choices(
    eligible: Sequence[Eligible], devices: PciDevices, limit: int
) -> Iterator[list[dict[str, int]]]:
    """Yield the eligible devices for each choice of physical functions to assign.

    A choice excludes the virtual functions of the chosen physical functions, and the other
    contested physical functions. The fewest are chosen first. Of interchangeable physical functions
    only the number is varied.

    :param limit: the number of devices that all requests need.
    """
    contested = _contested(eligible, devices)
    groups = _interchangeable(eligible, contested)
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
    eligible: Sequence[Eligible], contested: Mapping[str, Sequence[str]]
) -> list[list[str]]:
    """Group physical functions with equal signatures, including the signatures of their virtual
    functions.
    """

    def signature(address: str) -> _Signature:
        return tuple(each.get(address) for each in eligible)

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
