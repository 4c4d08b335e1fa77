"""Rows of the allocation outbox."""

from msgspec.structs import replace

from rtagent.model.change import Change
from rtagent.model.claim import ACTIVE, INCOMING, RESIZE
from rtagent.model.node_state import NodeState
from rtagent.model.policy import ManageAllocations, PlacementPolicy
from tests.support.stored_values import (
    NOW,
    ODD,
    POLICY,
    claim,
    created,
    migration,
    released,
    uuid,
)
from tests.support.stores import Database, assert_loads, commit, enrolled

MANAGED = replace(POLICY, placement=PlacementPolicy(manage_allocations=ManageAllocations.YES))


def managed(store) -> NodeState:
    """Enroll as the next writer, with a policy that writes allocations."""
    return replace(enrolled(store), policy=MANAGED)


def done(*consumers: str) -> Change:
    return Change(cause="placement", at=NOW, written=consumers)


def test_a_claim_and_its_row_are_one_commit(database: Database):
    store = database.store()
    new = claim(1)
    change = replace(created(new), request_id=ODD)
    state = commit(store, managed(store), change)
    assert set(state.outbox) == {new.owner_id}
    assert state.outbox[new.owner_id].request_id == ODD
    assert_loads(store, state)


def test_outbox_rows_are_updated_and_deleted(database: Database):
    store = database.store()
    one, two = claim(1), claim(2)
    state = commit(store, managed(store), created(one), created(two))
    state = commit(store, state, released(one))
    assert_loads(store, state)
    assert state.outbox[one.owner_id].revision > state.outbox[two.owner_id].revision
    state = commit(store, state, done(two.owner_id))
    assert_loads(store, state)
    assert set(state.outbox) == {one.owner_id}
    state = commit(store, state, done(one.owner_id))
    assert_loads(store, state)
    assert not state.outbox


def test_an_outbox_row_added_and_removed_in_one_commit_leaves_none(database: Database):
    store = database.store()
    new = claim(1)
    assert_loads(store, commit(store, managed(store), created(new), done(new.owner_id)))


def test_the_end_of_one_claim_adds_the_row_of_another_ones_migration(database: Database):
    """A guest is resized on its host, and its old claim is released."""
    store = database.store()
    old = claim(1, state=ACTIVE, expires_at=None)
    move = migration(1, claim_uuid=uuid(1002), migration_type=RESIZE)
    new = claim(2, owner_id=old.owner_id, state=INCOMING, kind=RESIZE, migration_uuid=move.uuid)
    state = commit(store, managed(store), created(old))
    state = commit(store, state, replace(created(new), migrations=(move,)))
    state = commit(store, state, done(old.owner_id, move.uuid))
    assert not state.outbox
    state = commit(store, state, released(old))
    assert set(state.outbox) == {move.uuid}
    assert_loads(store, state)


def test_requested_rows_need_no_claim(database: Database):
    store = database.store()
    change = Change(cause="placement", at=NOW, unwritten=(uuid(1), uuid(2)))
    state = commit(store, managed(store), change)
    assert_loads(store, state)
    assert len(state.outbox) == 2


def test_a_policy_without_the_outbox_deletes_its_rows(database: Database):
    store = database.store()
    state = commit(store, managed(store), created(claim(1)), created(claim(2)))
    state = commit(store, state, Change(cause="policy", at=NOW, policy=POLICY))
    assert not state.outbox
    assert_loads(store, state)


def test_rows_outlive_a_start_with_their_revision(database: Database):
    store = database.store()
    state = commit(store, managed(store), created(claim(1)))
    assert dict(managed(database.store()).outbox) == dict(state.outbox)
