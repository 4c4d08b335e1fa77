"""Ownership: what this agent has set in Placement, so that it can remove that and nothing else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import asdict, replace

from rtagent.errors import PlacementError
from rtagent.placement.provider import NO_CONTENTS, Contents, Provider, Tree

NAME = "placement.json"


class OwnedProvider(Contents, frozen=True, kw_only=True):
    """What this agent has set on a provider, and the provider's name and parent."""

    name: str = ""
    parent: str | None = None


_decode = msgspec.json.Decoder(dict[str, OwnedProvider]).decode


class Ownership:
    """What this agent has set, by provider uuid, until the process ends.

    :raises PlacementError: by each method of an `OwnershipFile` that cannot be read or written.
    """

    def __init__(self) -> None:
        self._owned: Mapping[str, OwnedProvider] = {}

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
        return self._owned

    def _replace(self, owned: Mapping[str, OwnedProvider]) -> None:
        self._owned = owned


class OwnershipFile(Ownership):
    """An `Ownership` in a file of the state directory, which only this process writes.

    Format: ``{provider uuid: {"name", "parent", "classes": [...], "traits": [...]}}``.
    """

    def __init__(self, state_path: str | Path) -> None:
        super().__init__()
        self._path = Path(state_path) / NAME
        self._read = False

    def _all(self) -> Mapping[str, OwnedProvider]:
        if not self._read:
            self._owned, self._read = self._load(), True
        return self._owned

    def _replace(self, owned: Mapping[str, OwnedProvider]) -> None:
        try:
            write_durably(self._path, msgspec.json.encode(owned, order="deterministic"))
        except OSError as exc:
            raise PlacementError(f"{self._path} cannot be written: {exc.strerror}") from exc
        self._owned = owned

    def _load(self) -> Mapping[str, OwnedProvider]:
        try:
            return _decode(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as exc:
            raise PlacementError(
                f"{self._path} cannot be read: {exc}. Remove the file; traits that this agent has"
                " set and that are no longer true then stay in Placement until an operator removes"
                " them"
            ) from exc


def obsolete_providers(ownership: Ownership, tree: Tree) -> tuple[Provider, ...]:
    """Return the providers that this agent has created below the root and that the tree lacks.

    :raises PlacementError: the records cannot be read.
    """
    wanted = {provider.uuid for provider in tree.providers}
    created = ownership.children(tree.providers[0].uuid)
    return tuple(replace(child, obsolete=True) for child in created if child.uuid not in wanted)


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file atomically. The content is durable when this returns."""
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
