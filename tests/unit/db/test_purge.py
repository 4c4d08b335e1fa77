"""Purging of rows."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rtagent.errors import ChangeRejected
from rtagent.model.change import Change
from tests.support.stored_values import NODE, NOW, claim, created, operation, released, state_of
from tests.support.stores import Database, assert_loads, commit, enrolled


def test_purge_deletes_old_operations_and_released_claims_only(database: Database):
    store = database.store()
    old, new = NOW - timedelta(days=2), NOW
    live, gone, late = (claim(n, created_at=old, updated_at=old) for n in (1, 2, 3))
    state = commit(store, enrolled(store), created(live, gone, late, at=old))
    state = commit(store, state, released(gone, at=old), released(late, at=new))
    state = commit(store, state, Change(cause="x", at=new, operations=(operation("new"),)))
    assert store.purge(NODE.uuid, NOW - timedelta(days=1)) == 4
    assert store.purge(NODE.uuid, NOW - timedelta(days=1)) == 0
    assert_loads(store, state)
    assert store.operation(NODE.uuid, live.uuid) is None
    assert store.operation(NODE.uuid, "new") == operation("new")
    commit(store, state, replace(created(gone), operations=()))
    with pytest.raises(ChangeRejected):
        commit(store, state_of(store.load(NODE.uuid)), replace(created(late), operations=()))
