"""Values of Placement's resource providers: inventories and traits, in a tree."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_FLOOR, Context

import os_traits

from rtagent.model.base import Converter, Value
from rtagent.model.node_state import NodeState
from rtagent.model.provider_names import provider_name, provider_uuid

#: Prefix of the names that anyone may define. All other names have a fixed meaning (os-traits,
#: os-resource-classes).
CUSTOM = "CUSTOM_"
#: Placement stores ratios in single precision on some databases: MariaDB returns six digits.
RATIO_DIGITS = Context(prec=6, rounding=ROUND_FLOOR)


class InventoryRecord(Value, frozen=True, kw_only=True):
    """One inventory, with Placement's fields.

    :ivar max_unit: the most that one consumer may allocate.
    """

    total: int
    reserved: int
    max_unit: int
    allocation_ratio: float
    min_unit: int = 1
    step_size: int = 1


#: Of the inventories of a provider, by resource class.
inventory_records = Converter(dict[str, InventoryRecord])


class Contents(Value, frozen=True, kw_only=True):
    """Names of the resource classes and traits of a provider, or of a part of them."""

    classes: frozenset[str] = frozenset()
    traits: frozenset[str] = frozenset()

    def union(self, other: Contents) -> Contents:
        return Contents(classes=self.classes | other.classes, traits=self.traits | other.traits)


NO_CONTENTS = Contents()


class Provider(Value, frozen=True, kw_only=True):
    """A resource provider as the agent wants it.

    :ivar parent: the uuid of its parent, or None for a root.
    :ivar exclusive: classes and traits that only this agent may set on it. Those that it does not
        want are removed, even if another writer set them.
    :ivar obsolete: this agent created it and no longer wants it.
    """

    uuid: str
    name: str
    inventories: Mapping[str, InventoryRecord]
    traits: frozenset[str]
    parent: str | None = None
    exclusive: Contents = NO_CONTENTS
    obsolete: bool = False


class CurrentProvider(Value, frozen=True, kw_only=True):
    """A provider as Placement has it, with what this agent and other writers set.

    :ivar generation: the generation at which the inventories were read.
    :ivar traits_generation: the generation at which the traits were read. It differs from
        `generation` if anything, an allocation included, was written between the two reads.
    """

    generation: int
    traits_generation: int
    inventories: Mapping[str, InventoryRecord] = {}
    traits: frozenset[str] = frozenset()


class Tree(Value, frozen=True, kw_only=True):
    """All providers of a node, parents first.

    :ivar revision: the revision of the state from which it was built.
    """

    revision: int
    providers: tuple[Provider, ...]


def child_provider(
    state: NodeState,
    suffix: str,
    inventories: Mapping[str, InventoryRecord],
    traits: frozenset[str] = frozenset(),
    exclusive: Contents = NO_CONTENTS,
) -> Provider:
    """Return a provider below the node's root. It has the trait of all providers of this agent.

    :param suffix: see `provider_names`.
    """
    node = state.node
    return Provider(
        uuid=provider_uuid(node, state.policy.placement, suffix),
        name=provider_name(node, suffix),
        parent=node.uuid,
        inventories=inventories,
        traits=traits | {os_traits.OWNER_NOVA},
        exclusive=exclusive,
    )


def countable(total: int, reserved: int) -> InventoryRecord:
    """Return the record of indivisible items, of which a consumer may allocate one or more."""
    return InventoryRecord(total=total, reserved=reserved, max_unit=total, allocation_ratio=1.0)
