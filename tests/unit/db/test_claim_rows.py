"""Rows of claims."""

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, delete, select, update

from rtagent.db.schema import claims
from rtagent.db.store import SqlStore
from rtagent.errors import ChangeRejected, RevisionConflict
from rtagent.model.claim import ACTIVE
from rtagent.model.retention import Retention
from tests.support.stored_values import (
    NODE,
    changed,
    claim,
    created,
    released,
    rule,
    state_of,
    uuid,
)
from tests.support.stores import Database, assert_loads, commit, enrolled


def test_claims_are_updated_and_released(database: Database):
    store = database.store()
    one, two = claim(1), claim(2)
    state = commit(store, enrolled(store), created(one, two))
    state = commit(store, state, changed(one, state=ACTIVE, expires_at=None, revision=2))
    assert_loads(store, state)
    state = commit(store, state, released(two))
    assert_loads(store, state)
    assert len(state.claims) == 1


def test_claim_uuid_is_unique_in_the_whole_database(database: Database):
    other = replace(NODE, uuid=uuid(55), hypervisor_hostname="hv55")
    store = database.store()
    state = commit(store, enrolled(store), created(claim(1)))
    theirs = state_of(store.enroll(other.uuid, "hv55", rule(other, 9)))
    with pytest.raises(ChangeRejected) as caught:
        commit(store, theirs, created(replace(claim(1), node_uuid=other.uuid, node="hv55")))
    assert caught.value.kwargs["taken"]
    assert_loads(store, state)


def test_change_of_a_claim_whose_row_was_lost_is_a_conflict(engine: Engine):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), created(claim(1)))
    with engine.begin() as connection:
        connection.execute(delete(claims))
    with pytest.raises(RevisionConflict):
        commit(store, state, changed(claim(1), state=ACTIVE, expires_at=None, revision=2))
    assert store.load(NODE.uuid).revision == state.revision


def test_claims_of_a_renamed_host_have_its_new_name(database: Database):
    store = database.store()
    after = commit(store, enrolled(store), created(claim(1)))
    renamed = replace(NODE, host="other", hypervisor_hostname="hv2", host_ip="10.0.0.1")
    stored = store.enroll(NODE.uuid, "hv2", rule(renamed, 2))
    assert stored.node == renamed
    assert stored.claims == (replace(*after.claims.values(), host="other", node="hv2"),)


def test_unreadable_claim_keeps_its_quantities_and_is_suspect(engine: Engine):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), created(claim(1), claim(2)))
    with engine.begin() as connection:
        connection.execute(
            update(claims).where(claims.c.uuid == claim(1).uuid).values(document='{"flavor": 7')
        )
    loaded = {c.uuid: c for c in store.load(NODE.uuid).claims}
    broken, whole = loaded[claim(1).uuid], loaded[claim(2).uuid]
    assert whole == state.claims[whole.uuid]
    assert broken.suspect is not None
    assert "its record is damaged: document" in broken.suspect
    assert broken.usage == claim(1).usage
    assert broken.owner_id == claim(1).owner_id


def test_released_claim_without_a_digest_stays_released(engine: Engine):
    """Release 0.2.0 leaves released claims so, when damage is accepted."""
    store = SqlStore(engine)
    ended, lost = claim(1), claim(2)
    state = commit(store, enrolled(store), created(ended, lost))
    state = commit(store, state, released(replace(ended, revision=2)))
    with engine.begin() as connection:
        without_digest = update(claims).where(claims.c.uuid == ended.uuid)
        connection.execute(without_digest.values(row_digest=None))
        connection.execute(delete(claims).where(claims.c.uuid == lost.uuid))
    stored = store.load(NODE.uuid)
    assert stored.unknown
    assert not stored.claims
    assert set(store.ended(NODE.uuid, [ended.owner_id])) == {ended.owner_id}
    store.purge(NODE.uuid, state.revision, Retention())
    with engine.connect() as connection:
        assert not connection.execute(select(claims)).all()
