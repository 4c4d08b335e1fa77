"""The history of claims, and how they ended."""

from typing import Any

from msgspec.structs import replace
from sqlalchemy import Engine, insert, select, text, update

from rtagent.db.history import SPAN
from rtagent.db.schema import claim_events
from rtagent.db.store import SqlStore
from rtagent.model.change import Event
from rtagent.model.claim import ACTIVE, ClaimEnd, ClaimEvent, ClaimFacts, HistoryPage
from rtagent.model.node import NodeRecord
from tests.support.stored_values import NODE, NOW, ODD, changed, claim, created, released, uuid
from tests.support.stores import Database, commit, enrolled


def test_history_is_complete_and_ordered(database: Database):
    store = database.store()
    one = claim(1, pcpus=3)
    state = commit(store, enrolled(store), created(one))
    commit(store, state, changed(one, state=ACTIVE, suspect="why"))
    was = ClaimFacts(
        state="building", suspect=None, vcpus=2, pcpus=3, memory_mb=1024, disk_mb=20480
    )
    common: dict[str, Any] = {"claim_uuid": one.uuid, "node_uuid": NODE.uuid, "at": NOW}
    assert store.history(NODE.uuid, one.uuid) == (
        ClaimEvent(
            **common,
            action="create",
            actor=ODD,
            request_id="req-1",
            before=None,
            after=was,
            reason="",
        ),
        ClaimEvent(
            **common,
            action="activate",
            actor="",
            request_id="",
            before=was,
            after=replace(was, state="active", suspect="why"),
            reason=ODD,
        ),
    )
    assert store.history(NODE.uuid, uuid(5)) == ()


def test_pages_of_history_are_newest_first_and_lead_to_all_events(database: Database):
    store = database.store()
    state = enrolled(store)
    for number in range(5):
        state = commit(store, state, created(claim(number)))
    state = commit(store, state, changed(claim(1), state=ACTIVE))
    numbers, found, before = [], [], None
    while True:
        page = store.history_page(NODE.uuid, None, before, 2)
        numbers += [each.number for each in page.events]
        found += [each.event for each in page.events]
        before = page.older
        if before is None:
            break
    assert numbers == sorted(set(numbers), reverse=True)
    assert found == list(reversed(store.history(NODE.uuid)))
    page = store.history_page(NODE.uuid, claim(1).uuid, None, 9)
    assert [each.event.action for each in page.events] == ["activate", "create"]
    assert store.history_page(NODE.uuid, uuid(9), None, 9) == HistoryPage()


def test_a_read_of_the_newest_events_looks_at_a_bounded_number_of_rows(engine: Engine):
    """Events of other nodes, in between, do not make it longer."""
    store = SqlStore(engine)
    commit(store, enrolled(store), created(claim(1)))
    other = replace(NODE, uuid=uuid(77), host="c77", hypervisor_hostname="hv77")
    store.enroll(other.uuid, "hv77", lambda _: NodeRecord(node=other, epoch=1, revision=0))
    with engine.begin() as connection:
        row = dict(connection.execute(select(claim_events)).mappings().one())
        others = {**row, "node_uuid": other.uuid, "id": row["id"] + SPAN + 10}
        connection.execute(insert(claim_events).values(others))
    newest = store.history_page(NODE.uuid, None, None, 5)
    assert newest.events == () and newest.older is not None
    older = store.history_page(NODE.uuid, None, newest.older, 5)
    assert [each.event.claim_uuid for each in older.events] == [claim(1).uuid]
    assert older.older is None


def test_damaged_event_is_listed_with_what_can_be_read(engine: Engine):
    store = SqlStore(engine)
    commit(store, enrolled(store), created(claim(1), claim(2)))
    with engine.begin() as connection:
        damaged = claim_events.c.claim_uuid == claim(1).uuid
        connection.execute(update(claim_events).where(damaged).values(after="{"))
    first, second = store.history(NODE.uuid)
    assert (first.claim_uuid, first.action) == (claim(1).uuid, "create")
    assert "the record of this event is damaged: after" in first.reason
    assert (second.reason, second.after.vcpus) == ("", 2)


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
