"""Physical functions against their own virtual ones: who takes the one leaves the others.

Every device that is nobody's relative can be given out by matching alone. Which physical functions
may be given out whole, so that their virtual ones may not, is tried: the fewest first, and of those
that are alike only how many, never which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rtagent.model.pci_devices import PciDevices
from rtagent.pci.kinship import parts
from rtagent.pci.matching import Eligible

#: What tells devices apart: for each request its rank, or None where it will not do.
Signature = tuple[int | None, ...]


def divisions(
    eligible: Sequence[Eligible], devices: PciDevices, most: int
) -> Iterator[list[dict[str, int]]]:
    """Every way to say which of the two may be had, until one has what is needed.

    :param most: how many devices are wanted in all.
    """
    contested = _contested(eligible, devices)
    kinds = _kinds(eligible, contested)
    bound = min(most, len(contested))
    for whole in range(bound + 1):
        for counts in _spread(whole, [len(kind) for kind in kinds]):
            taken = {pf for kind, n in zip(kinds, counts, strict=True) for pf in kind[:n]}
            barred = {part for pf in taken for part in contested[pf]} | (contested.keys() - taken)
            yield [
                {address: rank for address, rank in each.items() if address not in barred}
                for each in eligible
            ]


def _contested(eligible: Sequence[Eligible], devices: PciDevices) -> dict[str, list[str]]:
    """Physical functions that may be wanted, and of each the virtual ones that may be too."""
    wanted = dict.fromkeys(address for each in eligible for address in each)
    made = parts(devices)
    both = {pf: [part for part in made[pf] if part in wanted] for pf in wanted if pf in made}
    return {pf: its for pf, its in both.items() if its}


def _kinds(eligible: Sequence[Eligible], contested: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Physical functions that are alike in all that matters here, the most wanted kind first."""

    def signature(address: str) -> Signature:
        return tuple(each.get(address) for each in eligible)

    kinds: dict[tuple[Signature, frozenset[tuple[Signature, int]]], list[str]] = {}
    for pf, its in contested.items():
        counted = frozenset(Counter(map(signature, its)).items())
        kinds.setdefault((signature(pf), counted), []).append(pf)
    return list(kinds.values())


def _spread(number: int, room: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every way to take so many out of these kinds, from the front."""
    if not room:
        if number == 0:
            yield ()
        return
    for here in range(min(number, room[0]), -1, -1):
        for rest in _spread(number - here, room[1:]):
            yield (here, *rest)
