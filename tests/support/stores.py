"""Stores for tests, and what a test asserts of them; and a store of servers in memory."""

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from immutables import Map
from msgspec.structs import replace
from sqlalchemy import Engine, insert, select, text

from rtagent.conductor.ports import Begun
from rtagent.db.registry import SqlServiceRegistry
from rtagent.db.schema import metadata, to_document
from rtagent.db.store import SqlStore
from rtagent.model.change import Change
from rtagent.model.node_state import NodeState
from rtagent.model.server import Server, ServerOperation
from rtagent.model.stored import Stored
from rtagent.model.usage import NOTHING
from rtagent.ports import ServiceRegistry, Store
from rtagent.testing.memory_store import Disk, MemoryServiceRegistry, MemoryStore
from tests.support.stored_values import NODE, folded, state_of, take_over

T = TypeVar("T", Server, ServerOperation)


class SqlDatabase:
    """Stores on one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def store(self) -> SqlStore:
        return SqlStore(self._engine)

    def registry(self) -> ServiceRegistry:
        return SqlServiceRegistry(self._engine)

    def take(self) -> Any:
        """Copy everything."""
        with self._engine.connect() as connection:
            if self._engine.dialect.name != "sqlite":  # else each statement has its own view
                connection.execution_options(isolation_level="REPEATABLE READ")
            return {
                table.name: [dict(row) for row in connection.execute(select(table)).mappings()]
                for table in metadata.sorted_tables
            }

    def put(self, copy: Any) -> None:
        """Replace everything with a copy, as when a backup is restored."""
        with self._engine.begin() as connection:
            if self._engine.dialect.name == "postgresql":  # what agents write meanwhile waits
                names = ", ".join(table.name for table in metadata.sorted_tables)
                connection.execute(text(f"LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE"))
            for table in reversed(metadata.sorted_tables):
                connection.execute(table.delete())
            for table in metadata.sorted_tables:
                if copy[table.name]:
                    connection.execute(insert(table), copy[table.name])


class MemoryDatabase:
    """Stores on one disk."""

    def __init__(self, disk: Disk | None = None) -> None:
        self._disk = disk or Disk()

    def store(self) -> MemoryStore:
        return MemoryStore(self._disk)

    def registry(self) -> ServiceRegistry:
        return MemoryServiceRegistry(self._disk)

    def take(self) -> Any:
        return {uuid: (row, _parts(vars(row))) for uuid, row in self._disk.nodes.items()}

    def put(self, copy: Any) -> None:
        with self._disk.lock:
            self._disk.nodes.clear()
            for uuid, (row, parts) in copy.items():
                vars(row).update(_parts(parts))
                self._disk.nodes[uuid] = row


#: Makes stores that share their rows, of which copies are made.
Database = SqlDatabase | MemoryDatabase


def _parts(parts: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of what a store in memory changes in place; its values are frozen."""
    return {
        name: part.copy() if isinstance(part, dict | list) else part for name, part in parts.items()
    }


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


class MemoryServerStore:
    """A `ServerStore` whose rows are lost with the process.

    What is written goes through its document once, as in a database.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._servers: dict[str, Server] = {}
        self._operations: dict[str, ServerOperation] = {}

    def begin(self, operation: ServerOperation, server: Server, seen: Server | None) -> Begun:
        with self._lock:
            if operation.uuid in self._operations:
                return "begun"
            known = self.server(server.uuid)
            if known is None and seen is not None:
                return "absent"
            if known is not None and seen is None:
                return "exists"
            if known is not None and (known.operation_uuid is not None or known != seen):
                return "busy"
            self._operations[operation.uuid] = _stored(operation)
            self._servers[server.uuid] = _stored(server)
            return "begun"

    def save(
        self,
        operation: ServerOperation,
        server: Server | None = None,
        *,
        deleted: bool = False,
        owed: Collection[ServerOperation] = (),
    ) -> bool:
        with self._lock:
            known = self.operation(operation.uuid)
            if known is None or (known.epoch, known.state) != (operation.epoch, "running"):
                finished = deleted or operation.state != "running"
                ended = known is None or (known.epoch, known.state) == (
                    operation.epoch,
                    operation.state,
                )
                return finished and ended
            self._operations[operation.uuid] = _stored(replace(operation, beat=known.beat))
            if server is not None and not deleted:
                self._servers[server.uuid] = _stored(server)
            if server is not None and deleted:
                self._servers.pop(server.uuid, None)
                for each in self.operations(server_uuid=server.uuid):
                    if each.state != "running":
                        del self._operations[each.uuid]
            for each in owed:
                self._operations.setdefault(each.uuid, _stored(each))
            if operation.state != "running" and self.server(operation.server_uuid) is None:
                self._operations.pop(operation.uuid, None)
            return True

    def beat(self, operation: ServerOperation) -> bool:
        with self._lock:
            known = self.operation(operation.uuid)
            mine = (operation.owner, operation.epoch)
            if known is None or known.owner is None or (known.owner, known.epoch) != mine:
                return False
            self._operations[known.uuid] = replace(known, beat=known.beat + 1)
            return True

    def take(self, operation: ServerOperation, owner: str) -> ServerOperation | None:
        with self._lock:
            found = self.operation(operation.uuid)
            if found is None or found.state != "running":
                return None
            if (found.owner, found.epoch) == (owner, operation.epoch + 1):
                return found
            if (found.owner, found.epoch, found.beat) != (
                operation.owner,
                operation.epoch,
                operation.beat,
            ):
                return None
            taken = replace(found, owner=owner, epoch=found.epoch + 1)
            self._operations[taken.uuid] = taken
            return taken

    def server(self, uuid: str) -> Server | None:
        return self._servers.get(uuid)

    def servers(self) -> Sequence[Server]:
        return sorted(self._servers.values(), key=lambda server: (server.created_at, server.uuid))

    def operation(self, uuid: str) -> ServerOperation | None:
        return self._operations.get(uuid)

    def operations(
        self, *, server_uuid: str | None = None, running: bool = False
    ) -> Sequence[ServerOperation]:
        chosen = [
            operation
            for operation in list(self._operations.values())
            if server_uuid in (None, operation.server_uuid)
            and (not running or operation.state == "running")
        ]
        return sorted(chosen, key=lambda operation: (operation.created_at, operation.uuid))


def _stored(value: T) -> T:
    """Return the value that is read when this one was written."""
    return msgspec.json.decode(to_document(value), type=type(value), strict=False)
