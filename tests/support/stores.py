"""Stores for tests, and what a test asserts of them."""

from typing import Any, Protocol

from immutables import Map
from msgspec.structs import replace
from sqlalchemy import Engine

from rtagent.db.registry import SqlServiceRegistry
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
