"""The devices that each consumer has, as pools of Placement. Pure.

A consumer is an instance. During a move, the source's part belongs to the migration's uuid, as in
Nova.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import UNSET

from rtagent.model.claim import OUTGOING, Claim
from rtagent.model.device import VF_TYPES
from rtagent.model.node_state import NodeState
from rtagent.model.provider_names import device_suffix, mdev_suffix, provider_uuid
from rtagent.pci.assigned_resources import resource_users
from rtagent.placement.provider import Tree
from rtagent.placement.shape import Pool, WantedShape

#: A consumer, a pool, and the name of one unit of the pool.
_Unit = tuple[str, Pool, str]


def wanted_shape(state: NodeState, tree: Tree) -> WantedShape:
    """Return the tree of a state, and who has which of its devices."""
    pools = {(p.uuid, name) for p in tree.providers for name in p.inventories}
    claimed = [unit for claim in state.claims.values() for unit in _claimed(state, claim)]
    return WantedShape(
        tree=tree,
        claimed=_counted(claimed, pools),
        observed=_counted(_observed(state), pools),
    )


def _claimed(state: NodeState, claim: Claim) -> Iterator[_Unit]:
    consumer = _consumer(claim)
    for unit in claim.resources:
        pool = (_mdev_provider(state, unit.provider), unit.resource_class)
        yield consumer, pool, unit.identifier
    for device in claim.pci:
        recorded = state.devices.get(device.address)
        if recorded is not None and recorded.tags.physical_network is UNSET:
            parent = device.parent_addr if device.dev_type in VF_TYPES else None
            provider = _provider(state, device_suffix(parent or device.address))
            yield consumer, (provider, recorded.resource_class), device.address


def _consumer(claim: Claim) -> str:
    moves_away = claim.state == OUTGOING and claim.migration_uuid is not None
    return (claim.migration_uuid if moves_away else None) or claim.owner_id


def _observed(state: NodeState) -> Iterator[_Unit]:
    """Yield the mediated devices of domains without a claim."""
    users = resource_users(state)
    for each in state.resource_inventories:
        for name in each.identifiers:
            user = users.get(name)
            if user is not None and user not in state.owners:
                yield user, (_mdev_provider(state, each.provider), each.resource_class), name


def _mdev_provider(state: NodeState, address: str) -> str:
    """Return the provider of an assigned resource. :param address: "" is the host."""
    return _provider(state, mdev_suffix(address) if address else "")


def _provider(state: NodeState, suffix: str) -> str:
    return provider_uuid(state.node, state.policy.placement, suffix)


def _counted(units: Iterable[_Unit], pools: Iterable[Pool]) -> Mapping[str, Mapping[Pool, int]]:
    """Count the units of these pools. Two claims of one consumer may share a unit."""
    known = set(pools)
    counts: dict[str, dict[Pool, int]] = {}
    for consumer, pool, _ in set(units):
        if pool in known:
            of_consumer = counts.setdefault(consumer, {})
            of_consumer[pool] = of_consumer.get(pool, 0) + 1
    return counts
