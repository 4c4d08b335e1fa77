"""The shape of a node's tree in Placement: where inventories and allocations are. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rtagent.model.base import Value
from rtagent.placement.provider import InventoryRecord, Tree

#: Quantities by resource class.
Amounts = Mapping[str, int]
#: The uuid of a provider, and a resource class.
Pool = tuple[str, str]


class ShapedProvider(Value, frozen=True, kw_only=True):
    """A provider as Placement has it.

    :ivar generation: at which the inventories were read.
    :ivar allocations: by consumer; {} unless they are needed for a reshape.
    :ivar absent: Placement has no such provider yet.
    """

    name: str
    generation: int
    inventories: Mapping[str, InventoryRecord] = {}
    allocations: Mapping[str, Amounts] = {}
    absent: bool = False


class Consumer(Value, frozen=True, kw_only=True):
    """A consumer with all its allocations, by provider; some may be outside this tree."""

    generation: int
    project_id: str
    user_id: str
    consumer_type: str
    allocations: Mapping[str, Amounts]


class Shape(Value, frozen=True, kw_only=True):
    """What Placement has of this node: providers and consumers by uuid.

    :ivar consumers: those whose allocations a reshape may change.
    """

    providers: Mapping[str, ShapedProvider] = {}
    consumers: Mapping[str, Consumer] = {}


class WantedShape(Value, frozen=True, kw_only=True):
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


def old_pools(now: Shape, wanted: WantedShape) -> Iterator[Pool]:
    """Yield the pools whose class this node should have on other providers only."""
    inventories = wanted.inventories
    for uuid, provider in sorted(now.providers.items()):
        for name in sorted(provider.inventories):
            if (uuid, name) not in inventories and any(name == each for _, each in inventories):
                yield uuid, name


def new_pools(now: Shape, wanted: WantedShape) -> Iterator[Pool]:
    """Yield the pools of devices that Placement does not have yet."""
    for uuid, name in sorted(wanted.inventories):
        found = now.providers.get(uuid)
        if uuid != wanted.root and (found is None or name not in found.inventories):
            yield uuid, name


def holders(wanted: WantedShape, pool: Pool) -> Iterator[str]:
    """Yield the consumers whose claims have units of a pool."""
    return (consumer for consumer, pools in sorted(wanted.claimed.items()) if pools.get(pool))
