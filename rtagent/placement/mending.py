"""Write the allocations of devices that a consumer lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any

from rtagent.errors import PlacementConflict
from rtagent.model.consumers import Parts, consumers_of
from rtagent.model.node_state import NodeState
from rtagent.placement.allocation_audit import AllocatedConsumer
from rtagent.placement.consumer_parts import body, change_parts, identity_of, read_consumer
from rtagent.placement.healing import MissingParts
from rtagent.ports import PlacementAPI


class Mended(Enum):
    """What was written.

    :cvar NOTHING: the claims have ended, or another client was first.
    :cvar ALLOCATION: the consumer's allocation. :cvar BOTH: inventories, too; the mirror has to
        publish them again.
    """

    NOTHING = auto()
    ALLOCATION = auto()
    BOTH = auto()


def mend(api: PlacementAPI, missing: MissingParts, state: Callable[[], NodeState]) -> Mended:
    """Add what a consumer lacks to its allocations.

    A device that is reserved for its user cannot be allocated as it is. Then its reservation is
    lifted in the same request.

    :param state: returns the state of that moment.
    :raises PlacementConflict: other consumers have what is missing.
    """
    uuid, providers = missing.consumer.uuid, missing.parts.keys()

    def rule(now: AllocatedConsumer) -> Parts | None:
        return _completed(now, missing, state())

    try:
        changed = change_parts(api, uuid, providers, rule, identity_of(missing.consumer))
    except PlacementConflict:
        content = api.consumer(uuid)
        consumer, elsewhere = read_consumer(content, uuid, providers)
        wanted = rule(consumer)
        if wanted is None:
            return Mended.NOTHING
        inventories = {p: _unreserved(api, p, missing.parts[p]) for p in sorted(providers)}
        if not any(inventories.values()):
            raise
        new = body(content, {**elsewhere, **wanted}, identity_of(missing.consumer))
        api.reshape({p: found for p, found in inventories.items() if found}, {uuid: new})
        return Mended.BOTH
    return Mended.NOTHING if changed is None else Mended.ALLOCATION


def _completed(now: AllocatedConsumer, missing: MissingParts, state: NodeState) -> Parts | None:
    """Return the consumer's parts with what is missing; None if its claims do not need that now."""
    consumers = consumers_of(state, missing.owner_id)
    wanted = consumers.get(now.uuid)
    if wanted is None:
        return None
    parts = {provider: dict(resources) for provider, resources in now.parts.items()}
    for provider, resources in missing.parts.items():
        for name, amount in resources.items():
            most = wanted.parts.get(provider, {}).get(name, 0)
            has = parts.get(provider, {}).get(name, 0)
            if has < (number := min(most, has + amount)):
                parts.setdefault(provider, {})[name] = number
    return parts


def _unreserved(
    api: PlacementAPI, provider: str, added: Mapping[str, int]
) -> Mapping[str, Any] | None:
    """Return the provider's inventories with as little reserved as these amounts need.

    :returns: in the form of `PlacementAPI.reshape`; None: lifting reservations is of no use.
    """
    allocations = api.allocations(provider)["allocations"].values()
    found = api.inventories(provider)
    records = {name: dict(record) for name, record in found["inventories"].items()}
    lifted = False
    for name, amount in added.items():
        record = records.get(name)
        if record is None:
            return None
        used = sum(each["resources"].get(name, 0) for each in allocations)
        lacking = amount - (record["total"] - record["reserved"] - used)
        if lacking > record["reserved"]:
            return None
        if lacking > 0:
            record["reserved"] -= lacking
            lifted = True
    generation = found["resource_provider_generation"]
    content = {"inventories": records, "resource_provider_generation": generation}
    return content if lifted else None
