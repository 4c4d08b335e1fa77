"""How the claims of owners ended."""

from msgspec.structs import replace
from sqlalchemy import Engine, text

from rtagent.db.store import SqlStore
from rtagent.model.change import Event
from rtagent.model.claim import ClaimEnd
from tests.support.stored_values import NODE, claim, created, released, uuid
from tests.support.stores import Database, commit, enrolled


def ending(before, action, revision):
    """The change that releases a claim with this action."""
    change = released(replace(before, revision=revision))
    event = Event(before=before, after=change.ends[0], action=action)
    return replace(change, events=(event,))


def test_the_last_main_claim_of_an_owner_says_how_it_ended(database: Database):
    store = database.store()
    owner = claim(1).owner_id
    first, second, attached = (replace(claim(n), owner_id=owner) for n in (1, 2, 3))
    attached = replace(attached, kind="attach")
    live = claim(4)
    state = commit(store, enrolled(store), created(first))
    state = commit(store, state, ending(first, "expire", 2))
    state = commit(store, state, created(second, attached, live))
    state = commit(store, state, ending(second, "release", 4))
    commit(store, state, ending(attached, "expire", 5))
    found = store.ended(NODE.uuid, [owner, live.owner_id, uuid(77)])
    assert found == {owner: ClaimEnd(claim_uuid=second.uuid, action="release", revision=4)}
    assert found[owner].confirmed
    assert store.ended(NODE.uuid, []) == {}


def test_a_lapsed_lease_and_a_purged_history_confirm_nothing():
    end = ClaimEnd(claim_uuid=uuid(1), action="expire", revision=2)
    assert not end.confirmed
    assert not replace(end, action="").confirmed


def test_an_owner_with_a_damaged_row_is_left_out(engine: Engine):
    store = SqlStore(engine)
    one = claim(1)
    state = commit(store, enrolled(store), created(one))
    commit(store, state, ending(one, "release", 2))
    assert set(store.ended(NODE.uuid, [one.owner_id])) == {one.owner_id}
    with engine.begin() as connection:
        connection.execute(text("UPDATE claims SET memory_mb = memory_mb + 1"))
    assert store.ended(NODE.uuid, [one.owner_id]) == {}


def test_owners_are_read_in_chunks(database: Database):
    store = database.store()
    claims = [claim(n) for n in range(1, 4)]
    state = commit(store, enrolled(store), created(*claims))
    for number, each in enumerate(claims, 2):
        state = commit(store, state, ending(each, "abort", number))
    others = [uuid(n) for n in range(1000, 2400)]
    owners = {each.owner_id for each in claims}
    assert set(store.ended(NODE.uuid, [*others, *owners])) == owners
