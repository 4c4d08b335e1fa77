"""The fewest requests that bring a provider to its wanted state, and the differences. Pure."""

from collections.abc import Iterator, Mapping, Set

from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.placement.provider import CUSTOM, Contents, CurrentProvider, InventoryRecord, Provider

#: An item that one side has and the other has not.
PRESENT, ABSENT = "present", "absent"


class CreateProvider(Value, frozen=True):
    """``POST /resource_providers``"""

    uuid: str
    name: str
    parent: str | None


class PutTraits(Value, frozen=True):
    """``PUT /resource_providers/{uuid}/traits``: replaces all traits."""

    uuid: str
    traits: frozenset[str]


class PutInventories(Value, frozen=True):
    """``PUT /resource_providers/{uuid}/inventories``: replaces all inventories."""

    uuid: str
    inventories: Mapping[str, InventoryRecord]


class DeleteProvider(Value, frozen=True):
    """``DELETE /resource_providers/{uuid}``, with its inventories and traits."""

    uuid: str


Request = CreateProvider | PutTraits | PutInventories | DeleteProvider


class Difference(Value, frozen=True, kw_only=True):
    """One item that the mirror would change.

    :ivar kind: ``provider``, ``trait`` or ``inventory``. :ivar item: its name.
    :ivar placement: what Placement has. :ivar agent: what the agent wants. Each is a record,
        `PRESENT` or `ABSENT`.
    """

    provider: str
    kind: str
    item: str
    placement: InventoryRecord | str
    agent: InventoryRecord | str


def diff(current: CurrentProvider | None, wanted: Provider, owned: Contents) -> tuple[Request, ...]:
    """Return the requests that lead from the current provider to the wanted one.

    Traits are sent first, so that a disabled host has its trait before it has inventories. An
    obsolete provider is deleted, unless other writers have set something on it: then only what
    this agent set is removed.

    :param current: None if Placement has no such provider.
    :param owned: what this agent set on it earlier, see `owned_after`.
    """
    return tuple(_requests(current, wanted, owned))


def differences(
    current: CurrentProvider | None, wanted: Provider, owned: Contents
) -> tuple[Difference, ...]:
    """Return what `diff` would change: provider, traits, inventories, each sorted by name."""
    present = current or CurrentProvider(generation=0, traits_generation=0)
    return tuple(
        Difference(provider=wanted.name, kind=kind, item=item, placement=before, agent=after)
        for request in diff(current, wanted, owned)
        for kind, item, before, after in _items(request, wanted.name, present)
    )


def owned_after(current: CurrentProvider | None, wanted: Provider, owned: Contents) -> Contents:
    """Return what this agent owns on the provider once it is as wanted.

    A CUSTOM_* trait that another writer set before is not owned. A standard trait is: its meaning
    is fixed, and this agent alone decides about the capabilities of this hypervisor.
    """
    foreign = current.traits - owned.traits if current else frozenset()
    return Contents(
        classes=frozenset(wanted.inventories),
        traits=frozenset(t for t in wanted.traits if t not in foreign or not t.startswith(CUSTOM)),
    )


def drained(request: PutInventories, current: CurrentProvider, in_use: Set[str]) -> PutInventories:
    """Return the request with the inventories in use that it would remove, completely reserved.

    Placement refuses to remove an inventory that has allocations. Thus it is not allocated further.
    """
    kept = {
        name: replace(record, reserved=record.total)
        for name, record in current.inventories.items()
        if name in in_use and name not in request.inventories
    }
    return PutInventories(request.uuid, {**request.inventories, **kept})


def remaining(current: CurrentProvider, owned: Contents) -> Contents:
    """Return the part of what this agent owned that the provider still has."""
    return Contents(
        classes=owned.classes & current.inventories.keys(), traits=owned.traits & current.traits
    )


def _requests(
    current: CurrentProvider | None, wanted: Provider, owned: Contents
) -> Iterator[Request]:
    if wanted.obsolete and (current is None or _only_owned(current, owned)):
        if current is not None:
            yield DeleteProvider(wanted.uuid)
        return
    if current is None:
        yield CreateProvider(wanted.uuid, wanted.name, wanted.parent)
        current = CurrentProvider(generation=0, traits_generation=0)
    traits = current.traits - owned.traits - wanted.exclusive.traits | wanted.traits
    if traits != current.traits:
        yield PutTraits(wanted.uuid, traits)
    unwanted = (owned.classes | wanted.exclusive.classes) - set(wanted.inventories)
    kept = {name: record for name, record in current.inventories.items() if name not in unwanted}
    records = {**kept, **wanted.inventories}
    if records != current.inventories:
        yield PutInventories(wanted.uuid, records)


def _only_owned(current: CurrentProvider, owned: Contents) -> bool:
    """Whether no other writer has set anything on the provider."""
    return current.traits <= owned.traits and current.inventories.keys() <= owned.classes


def _items(
    request: Request, provider: str, current: CurrentProvider
) -> Iterator[tuple[str, str, InventoryRecord | str, InventoryRecord | str]]:
    match request:
        case CreateProvider():
            yield "provider", provider, ABSENT, PRESENT
        case DeleteProvider():
            yield "provider", provider, PRESENT, ABSENT
        case PutTraits(traits=traits):
            for trait in sorted(traits ^ current.traits):
                added = trait in traits
                yield "trait", trait, *((ABSENT, PRESENT) if added else (PRESENT, ABSENT))
        case PutInventories(inventories=inventories):
            for name in sorted({*inventories, *current.inventories}):
                before = current.inventories.get(name, ABSENT)
                after = inventories.get(name, ABSENT)
                if before != after:
                    yield "inventory", name, before, after
