"""What Placement has of a node: providers with inventories and traits, in a tree. Values."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.base import Value

#: Names with this prefix are anybody's to give; the others have one meaning (os-traits,
#: os-resource-classes).
CUSTOM = "CUSTOM_"


class Record(Value, frozen=True, kw_only=True):
    """One inventory, with Placement's fields. :ivar max_unit: the most that one consumer gets."""

    total: int
    reserved: int
    max_unit: int
    allocation_ratio: float
    min_unit: int = 1
    step_size: int = 1


class Contents(Value, frozen=True, kw_only=True):
    """What a provider has, or what of it is ours: resource classes and traits, by name."""

    classes: frozenset[str] = frozenset()
    traits: frozenset[str] = frozenset()

    def plus(self, other: Contents) -> Contents:
        return Contents(classes=self.classes | other.classes, traits=self.traits | other.traits)


class Provider(Value, frozen=True, kw_only=True):
    """One resource provider.

    :ivar parent: its parent's uuid, or None for a root.
    :ivar ruled: what only this agent may say of it: withdrawn when it is not (or no longer) true,
        whoever set it.
    :ivar gone: it was this agent's, and is to be there no more.
    """

    uuid: str
    name: str
    inventories: Mapping[str, Record]
    traits: frozenset[str]
    parent: str | None = None
    ruled: Contents = Contents()
    gone: bool = False


class Tree(Value, frozen=True, kw_only=True):
    """Every provider of a node, parents first. :ivar revision: of the state it was built from."""

    revision: int
    providers: tuple[Provider, ...]
