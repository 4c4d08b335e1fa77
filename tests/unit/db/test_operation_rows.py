"""Rows of operations."""

import pytest
from msgspec.structs import replace

from rtagent.errors import ChangeRejected
from rtagent.model.change import Change
from tests.support.stored_values import NODE, NOW, claim, created, ended, operation, uuid
from tests.support.stores import Database, assert_loads, commit, enrolled


def test_operation_is_recorded(database: Database):
    store = database.store()
    commit(store, enrolled(store), created(claim(1)))
    one = claim(1).uuid
    assert store.operation(NODE.uuid, one) == operation(one, claim_uuid=one)
    assert store.operation(NODE.uuid, "never") is None
    assert store.operation(uuid(99), one) is None


def test_operation_ids_are_case_sensitive(database: Database):
    store = database.store()
    commit(store, enrolled(store), Change(cause="x", at=NOW, operations=(operation("abc"),)))
    assert store.operation(NODE.uuid, "ABC") is None


@pytest.mark.parametrize("second", ["another commit", "the same commit"])
def test_commit_with_a_used_operation_id_is_rejected(database: Database, second: str):
    store = database.store()
    state = enrolled(store)
    again = replace(created(claim(2)), operations=(operation(claim(1).uuid),))
    if second == "another commit":
        state = commit(store, state, created(claim(1)))
        changes: tuple[Change, ...] = (again,)
    else:
        changes = (created(claim(1)), again)
    with pytest.raises(ChangeRejected):
        commit(store, state, *changes)
    assert_loads(store, state)
    assert len(store.history(NODE.uuid)) == len(state.claims)


def test_ended_id_is_recorded_once_and_repeats_are_no_error(database: Database):
    store = database.store()
    state = enrolled(store)
    for _ in range(2):
        abort = Change(cause="abort", at=NOW, operations=(ended("x"), ended("y")))
        state = commit(store, state, abort, abort)
    assert store.operation(NODE.uuid, "x") == ended("x")
    assert store.operation(NODE.uuid, "y") == ended("y")


def test_ended_id_does_not_replace_the_operation_of_that_id(database: Database):
    store = database.store()
    first = Change(cause="x", at=NOW, operations=(operation("x"),))
    end = Change(cause="abort", at=NOW, operations=(ended("x"), ended("z")))
    state = commit(store, enrolled(store), first, end)
    commit(store, state, end)
    assert store.operation(NODE.uuid, "x") == operation("x")
    assert store.operation(NODE.uuid, "z") == ended("z")


@pytest.mark.parametrize("together", [True, False])
def test_operation_after_its_own_abort_is_rejected(database: Database, together: bool):
    store = database.store()
    state = enrolled(store)
    end = Change(cause="abort", at=NOW, operations=(ended("x"),))
    late = Change(cause="x", at=NOW, operations=(operation("x"),))
    changes = (end, late) if together else (late,)
    if not together:
        state = commit(store, state, end)
    with pytest.raises(ChangeRejected):
        commit(store, state, *changes)
