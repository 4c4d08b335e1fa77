"""Resource groups: quantities of which each comes from one provider, and the choice of providers.

A flavor has numbered groups (``resources1:VGPU=1``). What it asks for without a number may come
from several providers, but each class from one. ``group_policy=isolate`` gives each numbered group
a provider of its own. That is how Placement allocates, and how an agent chooses for a claim without
allocations.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from rtagent.model.base import Value

#: The most providers to try for the groups of one claim. Nothing is found after that.
MAX_TRIED = 10_000


class ResourceGroup(Value, frozen=True, kw_only=True):
    """:ivar quantities: by resource class. :ivar isolated: no other isolated group is given by the
    same provider.
    """

    quantities: Mapping[str, int]
    isolated: bool = False


#: The providers that may give a group, the preferred one first.
Preferred = Callable[[ResourceGroup], Sequence[str]]
#: Whether a provider can give all of these quantities.
Fits = Callable[[str, Mapping[str, int]], bool]


def groups_of(
    totals: Mapping[str, int], numbered: Sequence[ResourceGroup]
) -> tuple[ResourceGroup, ...]:
    """Return the groups that ask for these totals: parts of numbered ones, and one for the rest of
    each class.
    """
    rest, groups = Counter(dict(totals)), list[ResourceGroup]()
    for group in numbered:
        part = {name: number for name, number in group.quantities.items() if name in totals}
        if part:
            groups.append(ResourceGroup(quantities=part, isolated=group.isolated))
            rest.subtract(part)
    single = (ResourceGroup(quantities={name: rest[name]}) for name in sorted(+rest))
    return (*single, *groups)


def assignments(
    groups: Sequence[ResourceGroup], preferred: Preferred, fits: Fits
) -> Iterator[tuple[str, ...]]:
    """Yield each choice of the groups' providers, in the order of the groups; larger groups choose
    first.
    """
    order, tried = _largest_first(groups), itertools.count()

    def extended(chosen: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        if len(chosen) == len(order):
            yield tuple(provider for _, provider in sorted(zip(order, chosen, strict=True)))
            return
        group = groups[order[len(chosen)]]
        for provider in preferred(group):
            if next(tried) >= MAX_TRIED:
                return
            others = [groups[at] for at, its in zip(order, chosen, strict=False) if its == provider]
            if group.isolated and any(other.isolated for other in others):
                continue
            if fits(provider, totals_of((*others, group))):
                yield from extended((*chosen, provider))

    return extended(())


def most_assigned(
    groups: Sequence[ResourceGroup], preferred: Preferred, fits: Fits
) -> Mapping[str, int]:
    """Return what the largest of the groups, as many as fit together, ask for."""
    largest = [groups[at] for at in _largest_first(groups)]
    for number in range(len(largest), 0, -1):
        if next(assignments(largest[:number], preferred, fits), None) is not None:
            return totals_of(largest[:number])
    return {}


def place_of_all(where: str, numbered: Sequence[ResourceGroup]) -> str:
    """Return where groups do not fit together, with the policy of numbered ones."""
    if len(numbered) < 2:
        return where
    policy = "isolate" if any(group.isolated for group in numbered) else "none"
    return f"{where} with group_policy={policy}"


def totals_of(groups: Sequence[ResourceGroup]) -> Counter[str]:
    """Return the sums of the groups' quantities, by resource class."""
    totals = Counter[str]()
    for group in groups:
        totals.update(group.quantities)
    return totals


def _largest_first(groups: Sequence[ResourceGroup]) -> list[int]:
    sizes = [sum(group.quantities.values()) for group in groups]
    return sorted(range(len(groups)), key=lambda at: -sizes[at])
