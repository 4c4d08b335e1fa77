"""Purging of rows."""

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, text

from rtagent.db.store import SqlStore
from rtagent.errors import ChangeRejected
from rtagent.model.change import Change
from rtagent.model.retention import Checkpoint, EndedMove, Retention
from tests.support.stored_values import (
    NODE,
    NOW,
    claim,
    created,
    operation,
    released,
    state_of,
    uuid,
)
from tests.support.stores import Database, assert_loads, commit, enrolled

KEPT = Retention(
    running=2.5,
    checkpoints=(Checkpoint(revision=3, running=1.5),),
    moves={uuid(9): EndedMove(updated_at=NOW, running=0.5)},
)


def test_purge_deletes_old_operations_and_released_claims_only(database: Database):
    store = database.store()
    live, gone, late = (claim(n) for n in (1, 2, 3))
    state = commit(store, enrolled(store), created(live, gone, late))
    state = commit(store, state, released(replace(gone, revision=2)))
    old = state.revision
    state = commit(store, state, released(replace(late, revision=3)))
    state = commit(store, state, Change(cause="x", at=NOW, operations=(operation("new"),)))
    assert store.purge(NODE.uuid, 0, Retention()) == 0
    assert store.purge(NODE.uuid, old, Retention()) == 4
    assert store.purge(NODE.uuid, old, KEPT) == 0
    assert_loads(store, state)
    assert store.retention(NODE.uuid) == KEPT
    assert store.operation(NODE.uuid, live.uuid) is None
    assert store.operation(NODE.uuid, "new") == operation("new")
    commit(store, state, replace(created(gone), operations=()))
    with pytest.raises(ChangeRejected):
        commit(store, state_of(store.load(NODE.uuid)), replace(created(late), operations=()))


def test_damaged_ages_are_counted_anew(engine: Engine):
    """Records are then kept for longer."""
    store = SqlStore(engine)
    enrolled(store)
    store.purge(NODE.uuid, 0, KEPT)
    with engine.begin() as connection:
        connection.execute(text("UPDATE retention SET document = replace(document, '1.5', '0.5')"))
    assert store.retention(NODE.uuid) == Retention()
    store.purge(NODE.uuid, 0, KEPT)
    assert store.retention(NODE.uuid) == KEPT
