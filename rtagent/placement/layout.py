"""The layout of a node's tree in Placement: where inventories and allocations are. Pure."""

from collections.abc import Iterator, Mapping

from rtagent.model.base import Value
from rtagent.model.consumers import consumers_of
from rtagent.model.mem_encryption import RESOURCE_CLASS
from rtagent.model.node_state import NodeState
from rtagent.model.provider_names import provider_uuid
from rtagent.pci.assigned_resources import resource_users
from rtagent.pci.placement_reporting import provider_of_resource
from rtagent.placement.consumers import ConsumerRecord
from rtagent.placement.provider import InventoryRecord, Tree

#: Quantities by resource class.
Quantities = Mapping[str, int]
#: The uuid of a provider, and a resource class.
Pool = tuple[str, str]


class ProviderLayout(Value, frozen=True, kw_only=True):
    """A provider as Placement has it.

    :ivar generation: at which the inventories were read.
    :ivar allocations: by consumer; {} unless they are needed for a reshape.
    :ivar absent: Placement has no such provider yet.
    """

    name: str
    generation: int
    inventories: Mapping[str, InventoryRecord] = {}
    allocations: Mapping[str, Quantities] = {}
    absent: bool = False


class Layout(Value, frozen=True, kw_only=True):
    """What Placement has of this node: providers and consumers by uuid.

    :ivar consumers: those whose allocations a reshape may change.
    """

    providers: Mapping[str, ProviderLayout] = {}
    consumers: Mapping[str, ConsumerRecord] = {}


class WantedLayout(Value, frozen=True, kw_only=True):
    """What this node should have.

    :ivar classes: the resource classes of devices. Inventories of other classes stay.
    :ivar claimed: the units of each consumer's claims, by pool. :ivar observed: the units that the
        domains of consumers without a claim use.
    """

    tree: Tree
    classes: frozenset[str]
    claimed: Mapping[str, Mapping[Pool, int]] = {}
    observed: Mapping[str, Mapping[Pool, int]] = {}

    @property
    def root(self) -> str:
        return self.tree.providers[0].uuid

    @property
    def inventories(self) -> Mapping[Pool, InventoryRecord]:
        """The records of devices of all providers."""
        return {
            (provider.uuid, name): record
            for provider in self.tree.providers
            for name, record in provider.inventories.items()
            if name in self.classes
        }

    def units_of(self, consumer: str, resource_class: str) -> Mapping[str, int]:
        """Return how many units of a class a consumer has on each provider."""
        pools = self.claimed.get(consumer) or self.observed.get(consumer, {})
        return {uuid: number for (uuid, name), number in pools.items() if name == resource_class}


def old_pools(now: Layout, wanted: WantedLayout) -> Iterator[Pool]:
    """Yield the pools whose class this node should have on other providers only."""
    inventories = wanted.inventories
    for uuid, provider in sorted(now.providers.items()):
        for name in sorted(provider.inventories):
            if (uuid, name) not in inventories and any(name == each for _, each in inventories):
                yield uuid, name


def new_pools(now: Layout, wanted: WantedLayout) -> Iterator[Pool]:
    """Yield the pools of devices that Placement does not have yet."""
    for uuid, name in sorted(wanted.inventories):
        found = now.providers.get(uuid)
        if uuid != wanted.root and (found is None or name not in found.inventories):
            yield uuid, name


def consumers_with(wanted: WantedLayout, pool: Pool) -> Iterator[str]:
    """Yield the consumers whose claims have units of a pool."""
    return (consumer for consumer, pools in sorted(wanted.claimed.items()) if pools.get(pool))


def wanted_layout(state: NodeState, tree: Tree) -> WantedLayout:
    """Return the tree of a state, and who has which of its devices."""
    classes = frozenset(_classes(state))
    pools = [(p.uuid, name) for p in tree.providers[1:] for name in p.inventories.keys() & classes]
    claimed: dict[str, dict[Pool, int]] = {}
    for owner in state.owners:
        for consumer in consumers_of(state, owner).values():
            for uuid, name in pools:
                if quantity := consumer.parts.get(uuid, {}).get(name, 0):
                    claimed.setdefault(consumer.uuid, {})[uuid, name] = quantity
    return WantedLayout(tree=tree, classes=classes, claimed=claimed, observed=_observed(state))


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
    for uuid in state.domain_usages:
        if uuid not in state.owners:
            for (suffix, name), number in state.usage_of_domain(uuid).quantities.items():
                provider = provider_uuid(state.node, state.policy.placement, suffix)
                found.setdefault(uuid, {})[provider, name] = number
    return found
