"""What this agent has set in Placement, so that it can be withdrawn later, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

import msgspec

from rtagent.errors import PlacementError
from rtagent.placement.tree import Contents

NAME = "placement.json"


class Ownership(Protocol):
    """What is ours, by provider uuid."""

    def of(self, uuid: str) -> Contents:
        """What this agent has set on a provider. :raises PlacementError: it cannot be read."""
        ...

    def remember(self, uuid: str, contents: Contents) -> None:
        """Replace it, durably. :raises PlacementError: it cannot be written."""
        ...


class MemoryOwnership:
    """An `Ownership` that ends with the process."""

    def __init__(self) -> None:
        self._contents: dict[str, Contents] = {}

    def of(self, uuid: str) -> Contents:
        return self._contents.get(uuid, Contents())

    def remember(self, uuid: str, contents: Contents) -> None:
        self._contents[uuid] = contents


class OwnershipFile:
    """An `Ownership` kept in a file of the state directory, written by this process alone.

    Shape: ``{provider uuid: {"classes": [...], "traits": [...]}}``.
    """

    def __init__(self, state_path: str | Path) -> None:
        self._path = Path(state_path) / NAME
        self._read: dict[str, Contents] | None = None

    def of(self, uuid: str) -> Contents:
        return self._contents().get(uuid, Contents())

    def remember(self, uuid: str, contents: Contents) -> None:
        if self.of(uuid) == contents:
            return
        after = {**self._contents(), uuid: contents}
        try:
            _replace(self._path, msgspec.json.encode(after, order="deterministic"))
        except OSError as exc:
            raise PlacementError(f"{self._path} cannot be written: {exc.strerror}") from exc
        self._read = after

    def _contents(self) -> dict[str, Contents]:
        if self._read is None:
            self._read = self._load()
        return self._read

    def _load(self) -> dict[str, Contents]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, Contents])
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.MsgspecError) as exc:
            raise PlacementError(
                f"{self._path} cannot be read: {exc}. Remove it: traits that this agent has set and"
                " that are not true any more then stay in Placement until somebody removes them"
            ) from exc


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
