"""Values of Placement's resource providers: inventories and traits, in a tree.

Ownership: what this agent has set in Placement, so that it can remove that and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_FLOOR, Context
from pathlib import Path

import msgspec
import os_traits
from msgspec.structs import asdict, replace

from rtagent.errors import PlacementError
from rtagent.identity.locks import write_durably
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


NAME = "placement.json"


class OwnedProvider(Contents, frozen=True, kw_only=True):
    """What this agent has set on a provider, and the provider's name and parent."""

    name: str = ""
    parent: str | None = None


_decode = msgspec.json.Decoder(dict[str, OwnedProvider]).decode


class Ownership:
    """What this agent has set, by provider uuid: in a file of the state directory, which only this
    process writes, or until the process ends.

    Format: ``{provider uuid: {"name", "parent", "classes": [...], "traits": [...]}}``.

    :raises PlacementError: by each method: the file cannot be read or written.
    """

    def __init__(self, state_path: str | Path | None = None) -> None:
        """:param state_path: None: nothing is recorded."""
        self._path = None if state_path is None else Path(state_path) / NAME
        self._owned: Mapping[str, OwnedProvider] | None = None

    def of(self, uuid: str) -> Contents:
        """Return what this agent has set on a provider."""
        owned = self._all().get(uuid, NO_CONTENTS)
        return Contents(classes=owned.classes, traits=owned.traits)

    def knows(self, uuid: str) -> bool:
        """Return whether this agent has created or adopted a provider."""
        return uuid in self._all()

    def children(self, parent: str) -> tuple[Provider, ...]:
        """Return the providers that this agent has created or adopted below a parent, without
        contents.
        """
        return tuple(
            Provider(uuid=uuid, name=child.name, parent=parent, inventories={}, traits=frozenset())
            for uuid, child in sorted(self._all().items())
            if child.parent == parent
        )

    def remember(self, provider: Provider, contents: Contents) -> None:
        """Replace the record of a provider, durably in a file."""
        owned = OwnedProvider(name=provider.name, parent=provider.parent, **asdict(contents))
        if self._all().get(provider.uuid) != owned:
            self._replace({**self._all(), provider.uuid: owned})

    def forget(self, uuid: str) -> None:
        """Remove the record of a provider, durably in a file."""
        if uuid in self._all():
            self._replace({key: owned for key, owned in self._all().items() if key != uuid})

    def copy(self) -> Ownership:
        """Return a copy whose changes are not recorded."""
        copied = Ownership()
        copied._owned = self._all()
        return copied

    def _all(self) -> Mapping[str, OwnedProvider]:
        if self._owned is None:
            self._owned = {} if self._path is None else _read(self._path)
        return self._owned

    def _replace(self, owned: Mapping[str, OwnedProvider]) -> None:
        if self._path is not None:
            write_document(self._path, owned)
        self._owned = owned


def _read(path: Path) -> Mapping[str, OwnedProvider]:
    try:
        return _decode(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as exc:
        raise PlacementError(
            f"{path} cannot be read: {exc}. Remove the file; traits that this agent has set and"
            " that are no longer true then stay in Placement until an operator removes them"
        ) from exc


def write_document(path: Path, document: object) -> None:
    """Replace a file of the state directory, durably. :raises PlacementError: it is not written."""
    try:
        write_durably(path, msgspec.json.encode(document, order="deterministic"))
    except OSError as exc:
        raise PlacementError(f"{path} cannot be written: {exc.strerror}") from exc


def obsolete_providers(ownership: Ownership, tree: Tree) -> tuple[Provider, ...]:
    """Return the providers that this agent has created below the root and that the tree lacks.

    :raises PlacementError: the records cannot be read.
    """
    wanted = {provider.uuid for provider in tree.providers}
    created = ownership.children(tree.providers[0].uuid)
    return tuple(replace(child, obsolete=True) for child in created if child.uuid not in wanted)
