"""Rows of claims and of their units: what a store reads and writes, and what the keys refuse."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, Engine, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from rtagent.db.claim_rows import CLAIMS
from rtagent.db.schema import claim_units, claims, units
from rtagent.db.store import SqlStore
from rtagent.errors import ChangeRejected, InvariantViolated, RevisionConflict
from rtagent.model.claim import ACTIVE, PCPU, Claim
from rtagent.model.node_state import restore
from rtagent.model.stored import Retention
from tests.support.stored_values import (
    NODE,
    POLICY,
    changed,
    claim,
    created,
    pinned,
    released,
    rule,
    state_of,
    uuid,
)
from tests.support.stores import Database, assert_loads, commit, enrolled, without_claims

Row = dict[str, Any]

ONE, TWO = pinned(1, 4, 5), pinned(2, 6)


def unit_row(holder: Claim, cpu: int) -> Row:
    unit = {"kind": PCPU, "unit": str(cpu)}
    return {"node_uuid": holder.node_uuid, "owner_id": holder.owner_id, **unit}


def claim_row(holder: Claim, cpu: int) -> Row:
    return {"claim_uuid": holder.uuid, **unit_row(holder, cpu)}


def rows(engine: Engine) -> tuple[list[Any], list[Any]]:
    """Return the rows of units with their owners, and with their claims."""
    owners = select(units.c.unit, units.c.owner_id)
    holders = select(claim_units.c.unit, claim_units.c.claim_uuid)
    with engine.connect() as connection:
        return sorted(connection.execute(owners)), sorted(connection.execute(holders))


def held(*holders: Claim) -> tuple[list[Any], list[Any]]:
    """Return the rows that these claims need."""
    names = [(name, holder) for holder in holders for _, name in holder.units]
    owners = {(name, holder.owner_id) for name, holder in names}
    return sorted(owners), sorted((name, holder.uuid) for name, holder in names)


def missing(connection: Connection) -> None:
    connection.execute(delete(claim_units).where(claim_units.c.unit == "4"))
    connection.execute(delete(units).where(units.c.unit == "4"))


def too_many(connection: Connection) -> None:
    connection.execute(insert(units), unit_row(ONE, 9))
    connection.execute(insert(claim_units), claim_row(ONE, 9))


def another_owner(connection: Connection) -> None:
    missing(connection)
    connection.execute(insert(units), unit_row(TWO, 4))
    connection.execute(insert(claim_units), claim_row(TWO, 4))


def test_claims_of_one_owner_share_a_unit(database: Database):
    store = database.store()
    here = pinned(1, 4, 5)
    there = pinned(2, 5, 6, owner_id=here.owner_id)
    state = commit(store, enrolled(store), created(here), created(there))
    assert_loads(store, state)
    state = commit(store, state, released(here))
    assert_loads(store, state)
    with pytest.raises(ChangeRejected):
        commit(store, without_claims(state), created(pinned(3, 5)))
    state = commit(store, state, created(pinned(3, 4)), released(there))
    state = commit(store, state, created(pinned(4, 5)))
    assert_loads(store, state)


def test_release_frees_units_and_purge_removes_the_claim(database: Database):
    store = database.store()
    one = pinned(1, 4)
    state = commit(store, enrolled(store), created(one), released(one))
    state = commit(store, state, created(pinned(2, 4)), released(pinned(2, 4)))
    assert store.purge(NODE.uuid, state.revision, Retention()) == 4
    assert_loads(store, commit(store, state, created(replace(one, owner_id=uuid(9)))))


@pytest.mark.parametrize(
    "statement",
    [
        insert(units).values(unit_row(TWO, 4)),
        insert(claim_units).values(claim_row(TWO, 4)),
        insert(claim_units).values({**claim_row(TWO, 4), "owner_id": ONE.owner_id}),
        insert(claim_units).values({**claim_row(TWO, 4), "node_uuid": uuid(99)}),
        insert(claim_units).values(claim_row(ONE, 7)),
        insert(claim_units).values({**claim_row(ONE, 4), "claim_uuid": uuid(99)}),
        update(units).where(units.c.unit == "4").values(owner_id=TWO.owner_id),
        delete(units).where(units.c.unit == "4"),
        delete(claims).where(claims.c.uuid == ONE.uuid),
    ],
)
def test_database_keys_refuse_inconsistent_rows(engine: Engine, statement: Any):
    store = SqlStore(engine)
    commit(store, enrolled(store), created(ONE, TWO))
    with pytest.raises(IntegrityError), engine.begin() as connection:
        connection.execute(statement)
    assert rows(engine) == held(ONE, TWO)


@pytest.mark.parametrize("wrong", [missing, too_many, another_owner])
def test_wrong_rows_make_the_claim_suspect_and_are_rewritten_by_the_writer(
    engine: Engine, caplog: pytest.LogCaptureFixture, wrong: Callable[[Connection], None]
):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), created(ONE, TWO))
    with engine.begin() as connection:
        wrong(connection)
    with caplog.at_level(logging.ERROR):
        read = {c.uuid: c for c in store.load(NODE.uuid).claims}
    assert f"claim {ONE.uuid}" in caplog.text
    assert "its record PCPU 4, PCPU 5" in caplog.text
    assert "the database says" in (read[ONE.uuid].suspect or "")
    assert read[ONE.uuid].units == ONE.units
    assert rows(engine) != held(ONE, TWO)
    store.reload(NODE.uuid, state.epoch)
    assert rows(engine) == held(ONE, TWO)
    assert all(c.suspect is None for c in store.load(NODE.uuid).claims)


def test_unit_without_a_claim_is_logged_and_freed(engine: Engine, caplog: pytest.LogCaptureFixture):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), created(ONE))
    with engine.begin() as connection:
        connection.execute(insert(units), unit_row(TWO, 9))
    assert_loads(store, state)
    assert "the database has PCPU 9 without a claim" in caplog.text
    enrolled(store)
    assert rows(engine) == held(ONE)


def test_unreadable_claim_keeps_its_quantities_and_its_units_and_is_suspect(engine: Engine):
    store = SqlStore(engine)
    commit(store, enrolled(store), created(ONE, TWO, claim(3)))
    with engine.begin() as connection:
        broken = update(claims).where(claims.c.uuid != TWO.uuid)
        connection.execute(broken.values(document='{"flavor": 7'))
    again = enrolled(store)
    one = again.claims[ONE.uuid]
    assert "its record is damaged: document" in (one.suspect or "")
    assert (one.owner_id, one.units, one.usage.pcpus) == (ONE.owner_id, ONE.units, 2)
    assert again.claims[claim(3).uuid].usage == claim(3).usage
    assert again.claims[TWO.uuid] == TWO
    with pytest.raises(InvariantViolated, match="PCPU 4 has two owners"):
        again.fold(created(pinned(4, 4)))
    assert rows(engine) == held(ONE, TWO)
    commit(store, again, released(one))
    assert rows(engine) == held(TWO)


def test_damaged_claim_has_no_unit_that_a_sound_claim_of_another_owner_has(engine: Engine):
    store = SqlStore(engine)
    commit(store, enrolled(store), created(ONE, TWO))
    with engine.begin() as connection:
        of_two = select(claims.c.document).where(claims.c.uuid == TWO.uuid)
        damaged = update(claims).where(claims.c.uuid == ONE.uuid)
        connection.execute(damaged.values(document=connection.scalar(of_two)))
    again = enrolled(store)
    assert again.claims[ONE.uuid].suspect
    assert again.claims[ONE.uuid].units == ONE.units
    assert again.claims[TWO.uuid] == TWO
    again.check()


def test_claims_that_give_a_unit_to_two_owners_are_loaded_and_fail_the_check(engine: Engine):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), created(ONE, TWO))
    with engine.begin() as connection:
        wrong = CLAIMS.encode(replace(TWO, numa_topology=ONE.numa_topology))
        connection.execute(update(claims).where(claims.c.uuid == TWO.uuid).values(wrong))
    stored = store.reload(NODE.uuid, state.epoch)
    assert rows(engine) == held(ONE, TWO)
    with pytest.raises(InvariantViolated, match="two owners"):
        restore(stored, POLICY).check()


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
