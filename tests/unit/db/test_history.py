"""What the database keeps of claims besides those that live: their history, how they ended, and
which of them another node has taken over.
"""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, insert, select, text, update

from rtagent.db.history import SPAN
from rtagent.db.schema import claim_events, claims
from rtagent.db.store import SqlStore
from rtagent.model.change import Change, Event
from rtagent.model.claim import (
    ACTIVE,
    ATTACH,
    BUILD,
    BUILDING,
    EVACUATION,
    INCOMING,
    OUTGOING,
    RELEASED,
    RESIZE,
    ClaimEnd,
    ClaimEvent,
    ClaimFacts,
    HistoryPage,
)
from rtagent.model.migration import DEST, SOURCE, TakenOver
from tests.support.stored_values import (
    NODE,
    NOW,
    ODD,
    changed,
    claim,
    created,
    migration,
    released,
    rule,
    state_of,
    uuid,
)
from tests.support.stores import Database, commit, enrolled


def test_history_is_complete_and_ordered(database: Database):
    store = database.store()
    one = claim(1, pcpus=3)
    state = commit(store, enrolled(store), created(one))
    commit(store, state, changed(one, state=ACTIVE, suspect="why"))
    sizes = {"vcpus": 2, "pcpus": 3, "memory_mb": 1024, "disk_mb": 20480}
    was = ClaimFacts(state="building", suspect=None, **sizes)
    its = {"claim_uuid": one.uuid, "node_uuid": NODE.uuid, "at": NOW, "before": None, "after": was}
    create = ClaimEvent(**its, action="create", actor=ODD, request_id="req-1", reason="")
    then = replace(was, state="active", suspect="why")
    activate = {"action": "activate", "before": was, "after": then, "reason": ODD}
    history = store.history(NODE.uuid, one.uuid)
    assert history == (create, replace(create, **activate, actor="", request_id=""))
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
    store.enroll(other.uuid, "hv77", rule(other, 1))
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


def test_an_owner_with_a_damaged_row_is_left_out(engine: Engine):
    store = SqlStore(engine)
    one = claim(1)
    state = commit(store, enrolled(store), created(one))
    commit(store, state, ending(one, "release", 2))
    assert set(store.ended(NODE.uuid, [one.owner_id])) == {one.owner_id}
    with engine.begin() as connection:
        connection.execute(text("UPDATE claims SET memory_mb = memory_mb + 1"))
    assert store.ended(NODE.uuid, [one.owner_id]) == {}


OTHER = replace(NODE, uuid=uuid(77), host="host-2", hypervisor_hostname="hv2.example")
LATER = NOW + timedelta(microseconds=1)


def put(store, state, it):
    """Store a claim in any state, with the migration record that an incoming claim needs."""
    live = replace(it, state=ACTIVE) if it.state == RELEASED else it
    if live.state == INCOMING:
        live = replace(live, migration_uuid=migration(1).uuid)
        record = migration(1, node_uuid=state.node.uuid)
        state = commit(store, state, Change(cause="x", at=NOW, migrations=(record,)))
    state = commit(store, state, created(live))
    return commit(store, state, released(live)) if it.state == RELEASED else state


def evacuate(store, mine, theirs, there=OTHER):
    """Store a claim of `NODE`, and one of another node that has evacuated its guest.

    :param mine: other fields of the former. :param theirs: and of the latter.
    :return: the two claims, and the state of the other node.
    """
    old = claim(1, **{"state": ACTIVE, **mine})
    state = put(store, enrolled(store), old)
    if there is not NODE:
        state = state_of(store.enroll(there.uuid, there.hypervisor_hostname, rule(there, 1)))
    where = {"node_uuid": there.uuid, "host": there.host, "node": there.hypervisor_hostname}
    taken = {"owner_id": old.owner_id, "state": ACTIVE, "kind": EVACUATION, "created_at": LATER}
    new = claim(2, **{**where, **taken, **theirs})
    return old, new, put(store, state, new)


@pytest.mark.parametrize(
    ("mine", "theirs", "found"),
    [
        ({}, {}, True),
        ({"state": OUTGOING}, {}, True),
        ({"state": BUILDING}, {}, False),
        ({"state": RELEASED}, {}, False),
        ({"kind": ATTACH}, {}, False),
        ({"kind": RESIZE}, {}, True),
        ({}, {"state": INCOMING}, False),
        ({}, {"state": OUTGOING}, False),
        ({}, {"state": RELEASED}, False),
        ({}, {"kind": BUILD}, False),
        ({}, {"kind": RESIZE}, False),
        ({}, {"owner_id": uuid(8)}, False),
        ({}, {"created_at": NOW}, False),
        ({"created_at": LATER}, {}, False),
    ],
)
def test_claim_is_evacuated_if_another_node_has_a_later_active_evacuation(
    database: Database, mine, theirs, found
):
    store = database.store()
    old, _, _ = evacuate(store, mine, theirs)
    assert store.evacuated(NODE.uuid) == ({old.uuid: TakenOver(host=OTHER.host)} if found else {})
    assert store.evacuated(OTHER.uuid) == {}


def test_evacuation_within_one_node_takes_nothing_over(database: Database):
    store = database.store()
    evacuate(store, {}, {}, there=NODE)
    assert store.evacuated(NODE.uuid) == {}


def test_evacuated_names_the_migration(database: Database):
    store = database.store()
    old, new, state = evacuate(store, {}, {})
    fields = {"node_uuid": OTHER.uuid, "claim_uuid": new.uuid}
    records = (migration(1, role=DEST, **fields), migration(2, role=SOURCE, **fields))
    commit(store, state, Change(cause="x", at=NOW, migrations=records))
    fact = TakenOver(host=OTHER.host, migration_uuid=records[0].uuid)
    assert store.evacuated(NODE.uuid) == {old.uuid: fact}


def test_damaged_record_of_an_evacuation_is_no_evidence(engine: Engine):
    store = SqlStore(engine)
    old, new, _ = evacuate(store, {}, {"owner_id": uuid(8)})
    with engine.begin() as connection:
        its = update(claims).where(claims.c.uuid == new.uuid)
        connection.execute(its.values(owner_id=old.owner_id))
    assert store.evacuated(NODE.uuid) == {}
