"""Rows of migrations."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, update

from rtagent.db.schema import claims
from rtagent.db.store import SqlStore
from rtagent.errors import ChangeRejected
from rtagent.model.change import Change
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
)
from rtagent.model.migration import DEST, SOURCE, TakenOver
from rtagent.model.request import Flavor
from tests.support.stored_values import (
    NODE,
    NOW,
    ODD,
    claim,
    created,
    migration,
    pinned,
    released,
    rule,
    state_of,
    uuid,
)
from tests.support.stores import Database, assert_loads, commit, enrolled

OTHER = replace(NODE, uuid=uuid(77), host="host-2", hypervisor_hostname="hv2.example")
LATER = NOW + timedelta(microseconds=1)


def test_migrations_are_inserted_updated_and_deleted(database: Database):
    store = database.store()
    odd = migration(
        1,
        role=SOURCE,
        status=ODD,
        claim_uuid=uuid(9),
        source_compute=ODD,
        source_node=ODD,
        dest_compute=ODD,
        dest_node="",
        dest_host="::1",
        old_flavor=Flavor(vcpus=1, memory_mb=1, extra_specs={ODD: ODD}),
        new_flavor=Flavor(vcpus=2, memory_mb=2),
        updated_at=LATER,
    )
    three = (odd, migration(2), migration(3))
    state = commit(store, enrolled(store), Change(cause="x", at=NOW, migrations=three))
    assert_loads(store, state)
    state = commit(
        store,
        state,
        Change(
            cause="x",
            at=NOW,
            migrations=(migration(2, status="finished", old_flavor=odd.old_flavor),),
            migration_removals=(migration(3).uuid,),
        ),
    )
    assert_loads(store, state)
    assert len(state.migrations) == 2


def test_migration_added_and_removed_in_one_commit_leaves_no_row(database: Database):
    store = database.store()
    came = Change(cause="x", at=NOW, migrations=(migration(1),))
    went = Change(cause="x", at=NOW, migration_removals=(migration(1).uuid,))
    assert_loads(store, commit(store, enrolled(store), came, went))


def test_each_side_of_a_move_has_its_own_row(database: Database):
    store = database.store()
    state = enrolled(store)
    other = state_of(store.enroll(OTHER.uuid, OTHER.hypervisor_hostname, rule(OTHER, 1)))
    state = commit(store, state, Change(cause="x", at=NOW, migrations=(migration(1),)))
    theirs = migration(1, node_uuid=OTHER.uuid, role=SOURCE, status="migrating")
    other = commit(store, other, Change(cause="x", at=NOW, migrations=(theirs,)))
    assert_loads(store, state)
    assert_loads(store, other)


def test_both_claims_of_a_move_share_units(database: Database):
    store = database.store()
    first = pinned(1, 1, 2, state=OUTGOING)
    second = pinned(2, 2, 3, state=ACTIVE, kind=RESIZE, owner_id=first.owner_id)
    state = commit(store, enrolled(store), created(first))
    state = commit(store, state, created(replace(second, created_at=LATER)))
    assert_loads(store, state)
    assert len(state.units) == 3
    state = commit(store, state, released(state.claims[first.uuid]))
    assert_loads(store, state)
    assert sorted(name for _, name in state.units) == ["2", "3"]
    state = commit(store, state, released(state.claims[second.uuid]))
    assert_loads(store, state)
    assert not state.units


def test_units_shared_by_a_move_are_refused_to_other_owners(database: Database):
    store = database.store()
    first = pinned(1, 1, state=ACTIVE)
    state = commit(store, enrolled(store), created(first))
    blind = replace(state, units=state.units.delete(("PCPU", "1")))
    third = created(pinned(3, 1))
    with pytest.raises(ChangeRejected):
        store.commit(blind, blind.fold(third), [third])
    assert_loads(store, state)


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
    here = enrolled(store)
    there = state_of(store.enroll(OTHER.uuid, OTHER.hypervisor_hostname, rule(OTHER, 1)))
    old = claim(1, **{"state": ACTIVE, **mine})
    new = claim(
        2,
        **{
            "owner_id": old.owner_id,
            "node_uuid": OTHER.uuid,
            "host": OTHER.host,
            "node": OTHER.hypervisor_hostname,
            "state": ACTIVE,
            "kind": EVACUATION,
            "created_at": LATER,
            **theirs,
        },
    )
    put(store, here, old)
    put(store, there, new)
    fact = TakenOver(host=OTHER.host)
    assert store.evacuated(NODE.uuid) == ({old.uuid: fact} if found else {})
    assert store.evacuated(OTHER.uuid) == {}


def test_evacuated_names_the_migration(database: Database):
    store = database.store()
    here = enrolled(store)
    there = state_of(store.enroll(OTHER.uuid, OTHER.hypervisor_hostname, rule(OTHER, 1)))
    old = claim(1, state=ACTIVE)
    new = claim(
        2,
        owner_id=old.owner_id,
        node_uuid=OTHER.uuid,
        host=OTHER.host,
        node=OTHER.hypervisor_hostname,
        state=ACTIVE,
        kind=EVACUATION,
        created_at=LATER,
    )
    put(store, here, old)
    there = put(store, there, new)
    records = tuple(
        migration(n, node_uuid=OTHER.uuid, role=role, claim_uuid=new.uuid)
        for n, role in ((1, DEST), (2, SOURCE))
    )
    commit(store, there, Change(cause="x", at=NOW, migrations=records))
    fact = TakenOver(host=OTHER.host, migration_uuid=records[0].uuid)
    assert store.evacuated(NODE.uuid) == {old.uuid: fact}


def test_damaged_record_of_an_evacuation_is_no_evidence(engine: Engine):
    store = SqlStore(engine)
    here = enrolled(store)
    there = state_of(store.enroll(OTHER.uuid, OTHER.hypervisor_hostname, rule(OTHER, 1)))
    old = claim(1, state=ACTIVE)
    where = {"node_uuid": OTHER.uuid, "host": OTHER.host, "node": OTHER.hypervisor_hostname}
    new = claim(2, owner_id=uuid(8), state=ACTIVE, kind=EVACUATION, created_at=LATER, **where)
    put(store, here, old)
    put(store, there, new)
    with engine.begin() as connection:
        its = update(claims).where(claims.c.uuid == new.uuid)
        connection.execute(its.values(owner_id=old.owner_id))
    assert store.evacuated(NODE.uuid) == {}


def test_evacuation_within_one_node_takes_nothing_over(database: Database):
    store = database.store()
    old = claim(1, state=ACTIVE)
    new = claim(2, state=ACTIVE, kind=EVACUATION, owner_id=old.owner_id, created_at=LATER)
    put(store, put(store, enrolled(store), old), new)
    assert store.evacuated(NODE.uuid) == {}


def put(store, state, it):
    """Store a claim in any state, with the migration record that an incoming claim needs."""
    live = replace(it, state=ACTIVE) if it.state == RELEASED else it
    if live.state == INCOMING:
        live = replace(live, migration_uuid=migration(1).uuid)
        record = migration(1, node_uuid=state.node.uuid)
        state = commit(store, state, Change(cause="x", at=NOW, migrations=(record,)))
    state = commit(store, state, created(live))
    if it.state == RELEASED:
        state = commit(store, state, released(live))
    return state
