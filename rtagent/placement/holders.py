"""Who has which devices, as pools of Placement. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rtagent.model.consumers import consumers_of
from rtagent.model.mem_encryption import RESOURCE_CLASS
from rtagent.model.node_state import NodeState
from rtagent.model.provider_names import provider_uuid
from rtagent.pci.assigned_resources import resource_users
from rtagent.pci.resource_providers import provider_of_resource
from rtagent.placement.provider import Tree
from rtagent.placement.shape import Pool, WantedShape


def wanted_shape(state: NodeState, tree: Tree) -> WantedShape:
    """Return the tree of a state, and who has which of its devices."""
    classes = frozenset(_classes(state))
    pools = [(p.uuid, name) for p in tree.providers[1:] for name in p.inventories.keys() & classes]
    claimed = {
        consumer.uuid: {
            pool: amount
            for pool in pools
            if (amount := consumer.parts.get(pool[0], {}).get(pool[1], 0))
        }
        for owner in state.owners
        for consumer in consumers_of(state, owner).values()
    }
    return WantedShape(
        tree=tree,
        classes=classes,
        claimed={uuid: of_consumer for uuid, of_consumer in claimed.items() if of_consumer},
        observed=_observed(state),
    )


def _classes(state: NodeState) -> Iterator[str]:
    """Yield the resource classes of the devices and the encryption contexts that are published."""
    yield RESOURCE_CLASS
    yield from (each.resource_class for each in state.resource_inventories if each.provider)
    if state.policy.pci.report_in_placement:
        yield from (each.resource_class for each in state.devices.values())


def _observed(state: NodeState) -> Mapping[str, Mapping[Pool, int]]:
    """Return the mediated devices and the contexts of domains without a claim, by domain."""
    users = resource_users(state)
    found: dict[str, dict[Pool, int]] = {}
    for each in state.resource_inventories:
        pool = provider_of_resource(state, each.provider), each.resource_class
        for name in each.identifiers:
            user = users.get(name)
            if user is not None and user not in state.owners:
                of_user = found.setdefault(user, {})
                of_user[pool] = of_user.get(pool, 0) + 1
    for uuid, usage in state.domain_usages.items():
        if uuid not in state.owners:
            for (suffix, name), number in usage.usage.amounts.items():
                provider = provider_uuid(state.node, state.policy.placement, suffix)
                found.setdefault(uuid, {})[provider, name] = number
    return found
