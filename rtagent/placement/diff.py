"""The fewest requests that make Placement show what it shall. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.placement.provider import CUSTOM, Contents, Provider, Record


class Seen(Value, frozen=True, kw_only=True):
    """A provider as Placement has it: ours and what others set.

    :ivar generation: at which its inventories were so. :ivar traits_generation: likewise. They
        differ when somebody wrote between the two readings, be it an allocation.
    """

    generation: int
    traits_generation: int
    inventories: Mapping[str, Record] = {}
    traits: frozenset[str] = frozenset()


class CreateProvider(Value, frozen=True):
    """``POST /resource_providers``"""

    uuid: str
    name: str
    parent: str | None


class PutTraits(Value, frozen=True):
    """``PUT /resource_providers/{uuid}/traits``: all that the provider shall have."""

    uuid: str
    traits: frozenset[str]


class PutInventories(Value, frozen=True):
    """``PUT /resource_providers/{uuid}/inventories``: all that the provider shall have."""

    uuid: str
    inventories: Mapping[str, Record]


class DeleteProvider(Value, frozen=True):
    """``DELETE /resource_providers/{uuid}``, with all that it has."""

    uuid: str


Request = CreateProvider | PutTraits | PutInventories | DeleteProvider


def diff(seen: Seen | None, wanted: Provider, ours: Contents) -> tuple[Request, ...]:
    """What leads from the acknowledged provider (None: there is none) to the wanted one.

    Traits go first, so that a host that is out of service is marked before it offers anything. A
    provider that is gone is deleted, unless others have set something there: then it is left bare.

    :param ours: what this agent set there earlier, see `owned`.
    """
    return tuple(_requests(seen, wanted, ours))


def owned(seen: Seen | None, wanted: Provider, ours: Contents) -> Contents:
    """What is the agent's own on the provider once it shows what is wanted.

    A CUSTOM_* trait that others had set before is not. A standard one is: its meaning is fixed, and
    what this hypervisor can do is this agent's to say.
    """
    had = seen.traits - ours.traits if seen else frozenset()
    return Contents(
        classes=frozenset(wanted.inventories),
        traits=frozenset(t for t in wanted.traits if t not in had or not t.startswith(CUSTOM)),
    )


def drained(request: PutInventories, seen: Seen) -> PutInventories:
    """The same, but what it withdraws stays, with all of it reserved: Placement refuses to remove
    an inventory in use, and nothing more may be allocated from it."""
    kept = {
        name: replace(record, reserved=record.total)
        for name, record in seen.inventories.items()
        if name not in request.inventories
    }
    return PutInventories(request.uuid, {**request.inventories, **kept})


def _requests(seen: Seen | None, wanted: Provider, ours: Contents) -> Iterator[Request]:
    if wanted.gone and (seen is None or _alone(seen, ours)):
        if seen is not None:
            yield DeleteProvider(wanted.uuid)
        return
    if seen is None:
        yield CreateProvider(wanted.uuid, wanted.name, wanted.parent)
        seen = Seen(generation=0, traits_generation=0)
    traits = seen.traits - ours.traits - wanted.ruled.traits | wanted.traits
    if traits != seen.traits:
        yield PutTraits(wanted.uuid, traits)
    gone = (ours.classes | wanted.ruled.classes) - set(wanted.inventories)
    foreign = {name: record for name, record in seen.inventories.items() if name not in gone}
    records = {**foreign, **wanted.inventories}
    if records != seen.inventories:
        yield PutInventories(wanted.uuid, records)


def _alone(seen: Seen, ours: Contents) -> bool:
    """Whether nobody else has set anything there."""
    return seen.traits <= ours.traits and seen.inventories.keys() <= ours.classes
