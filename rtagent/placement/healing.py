"""Healing: find guests whose devices have no allocation in Placement, and add the allocations.

A guest has the devices of its claim, whatever Placement records. Without an allocation the
scheduler would offer the device again. During a resize on one host the devices of both claims
count until the resize ends.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, auto
from typing import Any

from msgspec.structs import replace

from rtagent.errors import PlacementConflict
from rtagent.model.base import Value
from rtagent.model.claim import ACTIVE, OUTGOING
from rtagent.model.consumers import Consumer, Parts, consumers_of
from rtagent.model.node_state import NodeState
from rtagent.placement.allocation_audit import AllocatedConsumer, Published
from rtagent.placement.client import HttpPlacement
from rtagent.placement.consumers import change_parts, new_record, read_record

_Pool = tuple[str, str]


class MissingParts(Value, frozen=True, kw_only=True):
    """What a consumer lacks.

    :ivar owner_id: of the claims. :ivar parts: to add to what the consumer has.
    """

    owner_id: str
    consumer: Consumer
    parts: Parts


def missing_parts(
    state: NodeState,
    consumers: Mapping[str, AllocatedConsumer],
    published: Published,
    owners: Iterable[str],
) -> Iterator[MissingParts]:
    """Yield what the consumers of guests with devices lack in Placement.

    Guests that are being built or are expected are left out: the client that builds or moves them
    writes their allocations first. Devices that are allocated from another provider of this node
    than the one that the guest uses are not missing; that is a difference, see `allocation_audit`.

    :param consumers: of these owners with an allocation on this node's providers, by uuid.
    """
    for owner in sorted(owners):
        if is_healable(state, owner, published):
            yield from _of_owner(state, owner, consumers, published)


def is_healable(state: NodeState, owner: str, published: Published) -> bool:
    """Whether an owner's guest has published devices here and is neither built nor expected."""
    claims = state.claims_of(owner)
    return (
        any(claim.pci or claim.resources for claim in claims)
        and all(claim.state in (ACTIVE, OUTGOING) and not claim.quarantined for claim in claims)
        and any(
            _device_pools(state, owner, consumer, published)
            for consumer in consumers_of(state, owner).values()
        )
    )


def _of_owner(
    state: NodeState, owner: str, consumers: Mapping[str, AllocatedConsumer], published: Published
) -> Iterator[MissingParts]:
    wanted = consumers_of(state, owner)
    held: Counter[_Pool] = Counter()
    for uuid in {owner, *wanted}:
        if uuid in consumers:
            held.update(_pools(consumers[uuid].parts))
    devices = {uuid: _device_pools(state, owner, each, published) for uuid, each in wanted.items()}
    lacking = _by_class(sum(devices.values(), Counter()))
    lacking.subtract(_by_class(held))
    for uuid in sorted(wanted):
        added: dict[str, dict[str, int]] = {}
        for (provider, name), quantity in sorted(devices[uuid].items()):
            covered = min(quantity, held[provider, name])
            held[provider, name] -= covered
            number = min(quantity - covered, max(0, lacking[name]))
            lacking[name] -= number
            if number:
                added.setdefault(provider, {})[name] = number
        if added:
            yield MissingParts(owner_id=owner, consumer=wanted[uuid], parts=added)


def _device_pools(
    state: NodeState, owner: str, consumer: Consumer, published: Published
) -> Counter[_Pool]:
    """Return what a consumer should have of devices, from the providers that exist."""
    of_host = {unit.resource_class for c in state.claims_of(owner) for unit in c.resources}
    return Counter(
        {
            (provider, name): quantity
            for (provider, name), quantity in _pools(consumer.parts).items()
            if name in published.get(provider, ())
            and (provider != state.node.uuid or name in of_host)
        }
    )


def _pools(parts: Parts) -> Mapping[_Pool, int]:
    return {
        (p, name): quantity
        for p, resources in parts.items()
        for name, quantity in resources.items()
    }


def _by_class(pools: Mapping[_Pool, int]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for (_, name), quantity in pools.items():
        sums[name] += quantity
    return sums


class Healed(Enum):
    """What was written.

    :cvar NOTHING: the claims have ended, or another client was first.
    :cvar ALLOCATION: the consumer's allocation. :cvar BOTH: inventories, too; the mirror has to
        publish them again.
    """

    NOTHING = auto()
    ALLOCATION = auto()
    BOTH = auto()


def heal(api: HttpPlacement, missing: MissingParts, state: Callable[[], NodeState]) -> Healed:
    """Add what a consumer lacks to its allocations.

    A device that is reserved for its user cannot be allocated as it is. Then its reservation is
    lifted in the same request.

    :param state: returns the state of that moment.
    :raises PlacementConflict: other consumers have what is missing.
    """
    uuid, providers = missing.consumer.uuid, missing.parts.keys()

    def rule(now: AllocatedConsumer) -> Parts | None:
        return _completed(now, missing, state())

    new = new_record(missing.consumer)
    try:
        changed = change_parts(api, uuid, providers, rule, new)
    except PlacementConflict:
        record = read_record(api, uuid, new)
        consumer, elsewhere = record.on(uuid, providers)
        wanted = rule(consumer)
        if wanted is None:
            return Healed.NOTHING
        inventories = {p: _unreserved(api, p, missing.parts[p]) for p in sorted(providers)}
        if not any(inventories.values()):
            raise
        after = replace(record, allocations={**elsewhere, **wanted}).body(record.generation)
        api.reshape({p: found for p, found in inventories.items() if found}, {uuid: after})
        return Healed.BOTH
    return Healed.NOTHING if changed is None else Healed.ALLOCATION


def _completed(now: AllocatedConsumer, missing: MissingParts, state: NodeState) -> Parts | None:
    """Return the consumer's parts with what is missing; None if its claims do not need that now."""
    consumers = consumers_of(state, missing.owner_id)
    wanted = consumers.get(now.uuid)
    if wanted is None:
        return None
    parts = {provider: dict(resources) for provider, resources in now.parts.items()}
    for provider, resources in missing.parts.items():
        for name, quantity in resources.items():
            most = wanted.parts.get(provider, {}).get(name, 0)
            has = parts.get(provider, {}).get(name, 0)
            if has < (number := min(most, has + quantity)):
                parts.setdefault(provider, {})[name] = number
    return parts


def _unreserved(
    api: HttpPlacement, provider: str, added: Mapping[str, int]
) -> Mapping[str, Any] | None:
    """Return the provider's inventories with as little reserved as these quantities need.

    :returns: in the form of `HttpPlacement.reshape`; None: lifting reservations is of no use.
    """
    allocations = api.allocations(provider)["allocations"].values()
    found = api.inventories(provider)
    records = {name: dict(record) for name, record in found["inventories"].items()}
    lifted = False
    for name, quantity in added.items():
        record = records.get(name)
        if record is None:
            return None
        used = sum(each["resources"].get(name, 0) for each in allocations)
        lacking = quantity - (record["total"] - record["reserved"] - used)
        if lacking > record["reserved"]:
            return None
        if lacking > 0:
            record["reserved"] -= lacking
            lifted = True
    generation = found["resource_provider_generation"]
    content = {"inventories": records, "resource_provider_generation": generation}
    return content if lifted else None
