"""Rows of units: what a store reads and writes, and what the keys of the database refuse."""

import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, Engine, delete, event, insert, select, update
from sqlalchemy.exc import IntegrityError

from rtagent.db.claim_rows import CLAIMS
from rtagent.db.schema import claim_units, claims, units
from rtagent.db.store import SqlStore
from rtagent.errors import ChangeRejected, InvariantViolated
from rtagent.model.change import Change
from rtagent.model.claim import PCPU, Claim
from rtagent.model.node_state import restore
from rtagent.model.retention import Retention
from tests.support.stored_values import (
    NODE,
    NOW,
    POLICY,
    TOPOLOGY,
    changed,
    claim,
    created,
    pinned,
    released,
    rule,
    state_of,
    uuid,
)
from tests.support.stores import (
    Database,
    assert_loads,
    commit,
    enrolled,
    without_claims,
)

Row = dict[str, Any]

ONE, TWO = pinned(1, 4, 5), pinned(2, 6)


def unit_row(holder: Claim, cpu: int) -> Row:
    return {
        "node_uuid": holder.node_uuid,
        "kind": PCPU,
        "unit": str(cpu),
        "owner_id": holder.owner_id,
    }


def claim_row(holder: Claim, cpu: int) -> Row:
    return {"claim_uuid": holder.uuid, **unit_row(holder, cpu)}


def rows(engine: Engine) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    with engine.connect() as connection:
        return (
            sorted(map(tuple, connection.execute(select(units.c.unit, units.c.owner_id)))),
            sorted(
                map(tuple, connection.execute(select(claim_units.c.unit, claim_units.c.claim_uuid)))
            ),
        )


def held(*holders: Claim) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the rows that these claims need."""
    names = [(name, holder) for holder in holders for _, name in holder.units]
    return (
        sorted({(name, holder.owner_id) for name, holder in names}),
        sorted((name, holder.uuid) for name, holder in names),
    )


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


def test_units_follow_the_claims(database: Database):
    store = database.store()
    one, two = pinned(1, 4, 5), pinned(2, 6)
    state = commit(store, enrolled(store), created(one, two, claim(3)))
    there = pinned(1, 5, 7)
    state = commit(store, state, changed(one, numa_topology=there.numa_topology))
    assert_loads(store, state)
    state = commit(store, state, created(pinned(4, 4)))
    state = commit(store, state, released(two))
    state = commit(store, state, created(pinned(5, 6)))
    assert_loads(store, state)
    assert {name: owner for (_, name), owner in state.units.items()} == {
        "4": pinned(4).owner_id,
        "5": one.owner_id,
        "6": pinned(5).owner_id,
        "7": one.owner_id,
    }


def test_unit_passes_from_one_owner_to_another_in_one_commit(database: Database):
    store = database.store()
    one, two = pinned(1, 4, 5), pinned(2, 5, 4)
    state = commit(store, enrolled(store), created(one))
    state = commit(store, state, released(one), created(two), released(two), created(pinned(3, 4)))
    assert_loads(store, state)
    assert set(state.units.values()) == {pinned(3).owner_id}


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


def test_store_refuses_two_owners_of_one_unit(database: Database):
    """The decision did not know of the first owner, but the keys do."""
    store = database.store()
    state = commit(store, enrolled(store), created(pinned(1, 4)))
    with pytest.raises(ChangeRejected):
        commit(store, without_claims(state), created(claim(3), pinned(2, 3, 4)))
    assert_loads(store, state)
    assert store.operation(NODE.uuid, pinned(2).uuid) is None
    assert_loads(store, commit(store, state, created(pinned(2, 3))))


def test_unit_is_not_freed_while_a_claim_holds_it(database: Database):
    store = database.store()
    one, two = pinned(1, 4), pinned(2, 5)
    state = commit(store, enrolled(store), created(one, two))
    # The first claim's end, from a state that believes that it never had its own row.
    wrong = replace(state, claims=state.claims.delete(one.uuid).set(two.uuid, pinned(2, 4)))
    after = replace(without_claims(state), revision=state.revision + 1)
    with pytest.raises(ChangeRejected):
        store.commit(wrong, after, [changed(two)])
    assert_loads(store, state)


def test_nodes_may_have_units_of_the_same_name(database: Database):
    other = replace(NODE, uuid=uuid(55), hypervisor_hostname="hv55")
    store = database.store()
    mine = commit(store, enrolled(store), created(pinned(1, 4)))
    theirs = state_of(store.enroll(other.uuid, "hv55", rule(other, 9)))
    guest = pinned(2, 4, node_uuid=other.uuid, node="hv55")
    assert_loads(store, commit(store, theirs, created(guest)))
    assert_loads(store, mine)


def test_release_frees_units_and_purge_removes_the_claim(database: Database):
    store = database.store()
    one = pinned(1, 4)
    state = commit(store, enrolled(store), created(one), released(one))
    state = commit(store, state, created(pinned(2, 4)), released(pinned(2, 4)))
    assert store.purge(NODE.uuid, state.revision, Retention()) == 4
    assert_loads(store, commit(store, state, created(replace(one, owner_id=uuid(9)))))


def test_rows_exist_only_while_units_are_held(engine: Engine):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), created(ONE, TWO, claim(3)))
    assert rows(engine) == held(ONE, TWO)
    state = commit(store, state, released(ONE))
    assert rows(engine) == held(TWO)
    commit(store, state, released(TWO))
    assert rows(engine) == ([], [])


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


def test_claim_without_units_costs_no_further_statement(engine: Engine):
    store = SqlStore(engine)
    host = Change(cause="audit", at=NOW, topology=TOPOLOGY, policy=POLICY)
    state = commit(store, enrolled(store), host, created(ONE))
    said: list[str] = []

    def say(*args: Any) -> None:
        # The check of durability also names the tables. It comes whenever the last one is old.
        if not re.search(r"FROM (pg_class|information_schema)", args[2]):
            said.append(args[2])

    event.listen(engine, "before_cursor_execute", say)
    try:
        state = commit(store, state, created(claim(3)))
        plain = [text for text in said if "units" in text or "numa_topology" in text]
        commit(store, state, released(ONE))
    finally:
        event.remove(engine, "before_cursor_execute", say)
    assert plain == []
    assert sum("units" in text for text in said) == 2
    assert sum("numa_topology" in text for text in said) == 1


@pytest.mark.parametrize("wrong", [missing, too_many, another_owner])
def test_wrong_rows_make_the_claim_suspect_and_are_rewritten_by_the_writer(
    engine: Engine,
    caplog: pytest.LogCaptureFixture,
    wrong: Callable[[Connection], None],
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


def test_claims_that_give_a_unit_to_two_owners_are_loaded_and_fail_the_check(engine: Engine):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), created(ONE, TWO))
    with engine.begin() as connection:
        document = select(claims.c.document).where(claims.c.uuid == ONE.uuid)
        other = claims.c.uuid == TWO.uuid
        its_row = update(claims).where(other)
        connection.execute(its_row.values(document=connection.scalar(document)))
        checked = CLAIMS.checked
        row = connection.execute(select(*checked.selected).where(other)).one()
        connection.execute(its_row.values(row_digest=checked.digest(checked.read(row).values)))
    stored = store.reload(NODE.uuid, state.epoch)
    assert rows(engine) == held(ONE, TWO)
    with pytest.raises(InvariantViolated, match="two owners"):
        restore(stored, POLICY).check()


def test_unreadable_claim_keeps_its_units(engine: Engine):
    store = SqlStore(engine)
    commit(store, enrolled(store), created(ONE, TWO))
    with engine.begin() as connection:
        broken = update(claims).where(claims.c.uuid == ONE.uuid)
        connection.execute(broken.values(document="{"))
    again = enrolled(store)
    assert again.claims[ONE.uuid].units == ONE.units
    assert again.claims[ONE.uuid].usage.pcpus == 2
    assert again.units[PCPU, "4"] == ONE.owner_id
    with pytest.raises(InvariantViolated, match="PCPU 4 has two owners"):
        again.fold(created(pinned(3, 4)))
    assert rows(engine) == held(ONE, TWO)
    commit(store, again, released(again.claims[ONE.uuid]))
    assert rows(engine) == held(TWO)
