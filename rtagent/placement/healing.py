"""Find guests whose devices have no allocation in Placement. Pure.

A guest has the devices of its claim, whatever Placement records. Without an allocation the
scheduler would offer the device again. During a resize on one host the devices of both claims
count until the resize ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from rtagent.model.base import Value
from rtagent.model.claim import ACTIVE, OUTGOING
from rtagent.model.consumers import Consumer, Parts, consumers_of
from rtagent.model.node_state import NodeState
from rtagent.placement.allocation_audit import AllocatedConsumer, Published

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
) -> tuple[MissingParts, ...]:
    """Return what the consumers of guests with devices lack in Placement.

    Guests that are being built or are expected are left out: the client that builds or moves them
    writes their allocations first. Devices that are allocated from another provider of this node
    than the one that the guest uses are not missing; that is a difference, see `allocation_audit`.

    :param consumers: of these owners with an allocation on this node's providers, by uuid.
    """
    return tuple(
        each
        for owner in sorted(owners)
        if is_healable(state, owner, published)
        for each in _of_owner(state, owner, consumers, published)
    )


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
    lacking = Counter(_by_class(sum(devices.values(), Counter())))
    lacking.subtract(_by_class(held))
    for uuid in sorted(wanted):
        added: dict[str, dict[str, int]] = {}
        for (provider, name), amount in sorted(devices[uuid].items()):
            covered = min(amount, held[provider, name])
            held[provider, name] -= covered
            number = min(amount - covered, max(0, lacking[name]))
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
            (provider, name): amount
            for (provider, name), amount in _pools(consumer.parts).items()
            if name in published.get(provider, ())
            and (provider != state.node.uuid or name in of_host)
        }
    )


def _pools(parts: Parts) -> Mapping[_Pool, int]:
    return {
        (p, name): amount for p, resources in parts.items() for name, amount in resources.items()
    }


def _by_class(pools: Mapping[_Pool, int]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for (_, name), amount in pools.items():
        sums[name] += amount
    return sums
