"""Copies of everything in a store, to which it can be taken back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Engine, insert, select, text

from rtagent.db.schema import metadata
from rtagent.db.store import SqlStore
from rtagent.ports import Store
from rtagent.testing.memory_store import Disk, MemoryStore


class Copies(Protocol):
    """A database of which copies are made."""

    def store(self) -> Store: ...

    def take(self) -> Any:
        """Copy everything."""
        ...

    def put(self, copy: Any) -> None:
        """Replace everything with a copy, as when a backup is restored."""
        ...


class MemoryCopies:
    def __init__(self, disk: Disk | None = None) -> None:
        self._disk = disk or Disk()

    def store(self) -> Store:
        return MemoryStore(self._disk)

    def take(self) -> Any:
        return {uuid: (row, _parts(vars(row))) for uuid, row in self._disk.nodes.items()}

    def put(self, copy: Any) -> None:
        with self._disk.lock:
            self._disk.nodes.clear()
            for uuid, (row, parts) in copy.items():
                vars(row).update(_parts(parts))
                self._disk.nodes[uuid] = row


class SqlCopies:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def store(self) -> Store:
        return SqlStore(self._engine)

    def take(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        with self._engine.connect() as connection:
            if self._engine.dialect.name != "sqlite":  # else each statement has its own view
                connection.execution_options(isolation_level="REPEATABLE READ")
            return {
                table.name: [
                    dict(row) for row in connection.execute(select(table)).mappings().all()
                ]
                for table in metadata.sorted_tables
            }

    def put(self, copy: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        with self._engine.begin() as connection:
            if self._engine.dialect.name == "postgresql":  # what agents write meanwhile waits
                names = ", ".join(table.name for table in metadata.sorted_tables)
                connection.execute(text(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE"))
            for table in reversed(metadata.sorted_tables):
                connection.execute(table.delete())
            for table in metadata.sorted_tables:
                if copy[table.name]:
                    connection.execute(insert(table), copy[table.name])


def _parts(parts: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of what a store in memory changes in place; its values are frozen."""
    return {
        name: part.copy() if isinstance(part, dict | list) else part for name, part in parts.items()
    }
