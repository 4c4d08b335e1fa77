"""What differs between Placement and an agent, item by item: the requests of a diff, told. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rtagent.model.base import Value
from rtagent.placement.diff import (
    CreateProvider,
    DeleteProvider,
    PutInventories,
    PutTraits,
    Request,
    Seen,
    diff,
)
from rtagent.placement.provider import Contents, Provider, Record

#: What is there at one place and not at the other.
PRESENT, ABSENT = "present", "absent"


class Difference(Value, frozen=True, kw_only=True):
    """One item that the mirror would change.

    :ivar kind: ``provider``, ``trait`` or ``inventory``. :ivar item: its name.
    :ivar placement: what Placement has. :ivar agent: what it shall have: a record, or one of
        `PRESENT`, `ABSENT`.
    """

    provider: str
    kind: str
    item: str
    placement: Record | str
    agent: Record | str


def differences(seen: Seen | None, wanted: Provider, ours: Contents) -> tuple[Difference, ...]:
    """Provider first, then traits, then inventories, each by name. :param ours: see `diff`."""
    there = seen or Seen(generation=0, traits_generation=0)
    return tuple(
        Difference(provider=wanted.name, kind=kind, item=item, placement=had, agent=has)
        for request in diff(seen, wanted, ours)
        for kind, item, had, has in _items(request, wanted.name, there)
    )


def _items(
    request: Request, provider: str, seen: Seen
) -> Iterator[tuple[str, str, Record | str, Record | str]]:
    match request:
        case CreateProvider():
            yield "provider", provider, ABSENT, PRESENT
        case DeleteProvider():
            yield "provider", provider, PRESENT, ABSENT
        case PutTraits(traits=traits):
            for trait in sorted(traits ^ seen.traits):
                added = trait in traits
                yield "trait", trait, *((ABSENT, PRESENT) if added else (PRESENT, ABSENT))
        case PutInventories(inventories=inventories):
            for name in sorted({*inventories, *seen.inventories}):
                had, has = _of(seen.inventories, name), _of(inventories, name)
                if had != has:
                    yield "inventory", name, had, has


def _of(records: Mapping[str, Record], name: str) -> Record | str:
    return records.get(name, ABSENT)
