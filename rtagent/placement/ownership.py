"""What this agent has set in Placement, so that it can be withdrawn later, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec.structs import replace

from rtagent.errors import PlacementError
from rtagent.placement.provider import Contents, Provider, Tree

NAME = "placement.json"


class Ownership(Protocol):
    """What is ours, by provider uuid."""

    def of(self, uuid: str) -> Contents:
        """What this agent has set on a provider. :raises PlacementError: it cannot be read."""
        ...

    def children(self, parent: str) -> tuple[Provider, ...]:
        """The providers below one that this agent has made, with nothing in them.

        :raises PlacementError: it cannot be read.
        """
        ...

    def remember(self, provider: Provider, contents: Contents) -> None:
        """Replace what is ours on it, durably. :raises PlacementError: it cannot be written."""
        ...

    def forget(self, uuid: str) -> None:
        """Nothing of it is ours, durably. :raises PlacementError: it cannot be written."""
        ...


class Owned(Contents, frozen=True, kw_only=True):
    """What is ours on a provider, and which that is."""

    name: str = ""
    parent: str | None = None


def gone(ownership: Ownership, tree: Tree) -> tuple[Provider, ...]:
    """What this agent has made below the tree's root and the tree has no more.

    :raises PlacementError: what is ours cannot be read.
    """
    there = {provider.uuid for provider in tree.providers}
    made = ownership.children(tree.providers[0].uuid)
    return tuple(replace(child, gone=True) for child in made if child.uuid not in there)


class MemoryOwnership:
    """An `Ownership` that ends with the process."""

    def __init__(self) -> None:
        self._owned: Mapping[str, Owned] = {}

    def of(self, uuid: str) -> Contents:
        return _contents(self._all(), uuid)

    def children(self, parent: str) -> tuple[Provider, ...]:
        return _children(self._all(), parent)

    def remember(self, provider: Provider, contents: Contents) -> None:
        owned = _owned(provider, contents)
        if self._all().get(provider.uuid) != owned:
            self._replace({**self._all(), provider.uuid: owned})

    def forget(self, uuid: str) -> None:
        if uuid in self._all():
            self._replace({key: owned for key, owned in self._all().items() if key != uuid})

    def _all(self) -> Mapping[str, Owned]:
        return self._owned

    def _replace(self, owned: Mapping[str, Owned]) -> None:
        self._owned = owned


class OwnershipFile(MemoryOwnership):
    """An `Ownership` kept in a file of the state directory, written by this process alone.

    Shape: ``{provider uuid: {"name", "parent", "classes": [...], "traits": [...]}}``.
    """

    def __init__(self, state_path: str | Path) -> None:
        super().__init__()
        self._path = Path(state_path) / NAME
        self._read = False

    def _all(self) -> Mapping[str, Owned]:
        if not self._read:
            self._owned, self._read = self._load(), True
        return self._owned

    def _replace(self, owned: Mapping[str, Owned]) -> None:
        try:
            _replace(self._path, msgspec.json.encode(owned, order="deterministic"))
        except OSError as exc:
            raise PlacementError(f"{self._path} cannot be written: {exc.strerror}") from exc
        self._owned = owned

    def _load(self) -> Mapping[str, Owned]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Owned])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as exc:
            raise PlacementError(
                f"{self._path} cannot be read: {exc}. Remove it: traits that this agent has set and"
                " that are not true any more then stay in Placement until somebody removes them"
            ) from exc


def _owned(provider: Provider, contents: Contents) -> Owned:
    return Owned(
        name=provider.name,
        parent=provider.parent,
        classes=contents.classes,
        traits=contents.traits,
    )


def _contents(owned: Mapping[str, Owned], uuid: str) -> Contents:
    found = owned.get(uuid, Contents())
    return Contents(classes=found.classes, traits=found.traits)


def _children(owned: Mapping[str, Owned], parent: str) -> tuple[Provider, ...]:
    return tuple(
        Provider(uuid=uuid, name=child.name, parent=parent, inventories={}, traits=frozenset())
        for uuid, child in sorted(owned.items())
        if child.parent == parent
    )


def _replace(path: Path, content: bytes) -> None:
    """Atomically, and durable when it returns."""
    draft = path.with_suffix(".new")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
