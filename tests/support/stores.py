"""Stores for tests, and what a test asserts of them."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from immutables import Map
from msgspec.structs import replace
from sqlalchemy import Engine, insert, select, text

from rtagent.db.registry import SqlServiceRegistry
from rtagent.db.schema import metadata
from rtagent.db.store import SqlStore
from rtagent.model.change import Change
from rtagent.model.node_state import NodeState
from rtagent.model.stored import Stored
from rtagent.model.usage import NOTHING
from rtagent.ports import ServiceRegistry, Store
from rtagent.testing.memory_store import Disk, MemoryServiceRegistry, MemoryStore
from tests.support.stored_values import NODE, folded, state_of, take_over


class Database(Protocol):
    """Makes stores that share their rows."""

    def store(self) -> Any: ...

    def registry(self) -> ServiceRegistry: ...


class SqlDatabase:
    """Stores on one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def store(self) -> SqlStore:
        return SqlStore(self._engine)

    def registry(self) -> ServiceRegistry:
        return SqlServiceRegistry(self._engine)


class MemoryDatabase:
    """Stores on one disk."""

    def __init__(self) -> None:
        self._disk = Disk()

    def store(self) -> MemoryStore:
        return MemoryStore(self._disk)

    def registry(self) -> ServiceRegistry:
        return MemoryServiceRegistry(self._disk)


def enrolled(store: Store) -> NodeState:
    """Enroll as the next writer of `NODE`. Return the state that the store has."""
    return state_of(store.enroll(NODE.uuid, NODE.hypervisor_hostname, take_over))


def commit(store: Store, state: NodeState, *changes: Change) -> NodeState:
    """Commit changes as one batch. Return the state after them."""
    after = folded(state, *changes)
    store.commit(state, after, changes)
    return after


def assert_stored(stored: Stored, state: NodeState) -> None:
    """Assert that a store's content is that of the state."""
    assert stored.revision == state.revision
    assert {c.uuid: c for c in stored.claims} == dict(state.claims)
    assert {u.domain_uuid: u for u in stored.domain_usages} == dict(state.domain_usages)
    assert {m.uuid: m for m in stored.migrations} == dict(state.migrations)
    assert {d.address: d for d in stored.devices} == dict(state.devices)
    assert stored.resource_inventories == state.resource_inventories
    assert stored.topology == state.topology
    assert stored.failed_builds == state.failed_builds
    assert stored.disk_available_least == state.disk_available_least
    assert {row.consumer_uuid: row for row in stored.outbox} == dict(state.outbox)


def assert_loads(store: Store, state: NodeState) -> None:
    """Assert that a store loads the content of the state."""
    assert_stored(store.load(state.node.uuid), state)


def without_claims(state: NodeState) -> NodeState:
    """The same revision as a process would see it that has lost every claim."""
    return replace(state, claims=Map(), owners=Map(), units=Map(), counters=Map(), usage=NOTHING)


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
