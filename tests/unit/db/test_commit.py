"""The net effect of several changes in one commit."""

import pytest
from msgspec.structs import replace

from rtagent.errors import ChangeRejected
from rtagent.model.claim import ACTIVE, RELEASED
from tests.support.stored_values import NODE, changed, claim, created, released
from tests.support.stores import Database, assert_loads, commit, enrolled


def test_claim_that_changes_twice_is_stored_in_its_final_state(database: Database):
    store = database.store()
    one = claim(1)
    active = replace(one, state=ACTIVE, expires_at=None, revision=2)
    changes = (
        created(one),
        changed(one, state=ACTIVE, expires_at=None, revision=2),
        changed(active, suspect="gone", revision=3),
    )
    state = commit(store, enrolled(store), *changes)
    assert state.revision == 3
    assert_loads(store, state)
    assert [e.action for e in store.history(NODE.uuid)] == ["create", "activate", "activate"]


def test_claim_created_and_released_in_one_commit_leaves_a_released_row(database: Database):
    store = database.store()
    one = claim(1)
    state = commit(store, enrolled(store), created(one), released(one))
    assert store.load(NODE.uuid).claims == ()
    assert [e.after.state for e in store.history(NODE.uuid, one.uuid)] == [
        one.state,
        RELEASED,
    ]
    with pytest.raises(ChangeRejected):
        commit(store, state, replace(created(one), operations=()))


def test_claim_activated_and_released_in_one_commit_is_released(database: Database):
    store = database.store()
    one = claim(1)
    state = commit(store, enrolled(store), created(one))
    active = replace(one, state=ACTIVE)
    state = commit(store, state, changed(one, state=ACTIVE), released(active))
    assert_loads(store, state)


def test_sixteen_changes_are_one_commit(database: Database):
    store = database.store()
    state = commit(store, enrolled(store), *(created(claim(n)) for n in range(16)))
    assert state.revision == 16
    assert_loads(store, state)
