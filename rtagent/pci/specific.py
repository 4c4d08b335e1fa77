"""Which members of a class a claim gets: members, never a count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rtagent.model.base import Value
from rtagent.model.decision import Reason, ReasonCode, Refused, refuse
from rtagent.model.specific import SpecificInventory, SpecificUnit

#: So many of a class, or these of it.
Asked = int | tuple[str, ...]


class FittedUnits(Value, frozen=True):
    """All of them."""

    units: tuple[SpecificUnit, ...]


def fit_units(
    inventories: Sequence[SpecificInventory],
    holders: Mapping[str, str],
    owner_id: str,
    asked: Mapping[str, Asked],
    *,
    where: str,
    offered: frozenset[str] = frozenset(),
) -> FittedUnits | Refused:
    """All that is asked for, or every reason against it.

    So many of a class come from one provider, as in Placement, and from the one that they fill
    best, so that others stay whole.

    :param holders: the owner of each identifier that is held.
    :param offered: identifiers that the owner holds and may share with himself (a move on one
        host); they are taken first.
    """
    units: list[SpecificUnit] = []
    reasons: list[Reason] = []
    for resource_class, wanted in sorted(asked.items()):
        free = {
            each.provider: _free(each, holders, owner_id, offered)
            for each in inventories
            if each.resource_class == resource_class
        }
        named = dict.fromkeys(wanted if isinstance(wanted, tuple) else _best(free, wanted))
        got = [(provider, name) for name in named for provider in free if name in free[provider]]
        number = len(wanted) if isinstance(wanted, tuple) else wanted
        if len(got) < number:
            reasons.append(_reason(resource_class, where, number, len(got), bool(free)))
        units += (
            SpecificUnit(provider=provider, resource_class=resource_class, identifier=name)
            for provider, name in got
        )
    return refuse(reasons) if reasons else FittedUnits(tuple(units))


def missing(
    inventories: Sequence[SpecificInventory], held: Sequence[SpecificUnit]
) -> Iterator[SpecificUnit]:
    """Units that are held and no longer there: they stay with their holder, and are flagged."""
    there = {(each.resource_class, name) for each in inventories for name in each.identifiers}
    for unit in held:
        if (unit.resource_class, unit.identifier) not in there:
            yield unit


def _free(
    inventory: SpecificInventory,
    holders: Mapping[str, str],
    owner_id: str,
    offered: frozenset[str],
) -> list[str]:
    """Those that may be had, what the owner has already at the head."""
    mine = [
        name
        for name in inventory.identifiers
        if name in offered and holders.get(name, owner_id) == owner_id
    ]
    return mine + [name for name in inventory.identifiers if name not in holders]


def _best(free: Mapping[str, list[str]], wanted: int) -> tuple[str, ...]:
    """From the provider that has the fewest and still enough; else all that the fullest has."""
    by_size = sorted(free.values(), key=len)
    enough = [names for names in by_size if len(names) >= wanted]
    return tuple((enough or by_size[-1:] or [[]])[0][:wanted])


def _reason(
    resource_class: str, where: str, requested: int, available: int, offered: bool
) -> Reason:
    return Reason(
        code=ReasonCode.INSUFFICIENT if offered else ReasonCode.NOT_OFFERED,
        resource=resource_class,
        where=where,
        requested=requested,
        available=available,
        unit="units",
    )
