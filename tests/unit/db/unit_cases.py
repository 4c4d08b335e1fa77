"""What a database itself keeps of units, whichever it is, and what a store makes of rows that
somebody else has written.

A test module derives a class from this and brings the fixture `engine`.
"""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, delete, event, insert, select, update
from sqlalchemy.exc import IntegrityError

from rtagent.compute_node import numa_topology
from rtagent.db.schema import claim_units, claims, compute_nodes, units
from rtagent.db.store import SqlStore
from rtagent.errors import InvariantViolated
from rtagent.kernel import restored
from rtagent.model.change import Change
from rtagent.model.claim import PCPU, Claim
from rtagent.model.numa_usage import Occupancy
from rtagent.model.policy import Policy
from tests.unit.db.cases import commit, enrolled, holds
from tests.unit.db.values import (
    NODE,
    NOW,
    POLICY,
    TOPOLOGY,
    claim,
    created,
    holding,
    pinned,
    released,
    uuid,
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
    """The rows that these need."""
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


class UnitRowCases:
    def test_rows_are_there_only_while_they_are_held(self, engine: Engine):
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
    def test_the_keys_keep_owners_apart(self, engine: Engine, statement: Any):
        store = SqlStore(engine)
        commit(store, enrolled(store), created(ONE, TWO))
        with pytest.raises(IntegrityError), engine.begin() as connection:
            connection.execute(statement)
        assert rows(engine) == held(ONE, TWO)

    def test_a_plain_claim_costs_no_statement_more_and_leaves_the_cells_alone(self, engine: Engine):
        store = SqlStore(engine)
        host = Change(cause="audit", at=NOW, topology=TOPOLOGY, policy=POLICY)
        state = commit(store, enrolled(store), host, created(ONE))
        said: list[str] = []

        def say(*args: Any) -> None:
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

    def test_the_nodes_row_shows_what_of_its_cells_is_used(self, engine: Engine):
        def shown() -> Any:
            with engine.connect() as connection:
                document = connection.scalar(select(compute_nodes.c.numa_topology))
            return document and json.loads(document)

        store = SqlStore(engine)
        host = Change(cause="audit", at=NOW, topology=TOPOLOGY, policy=POLICY)
        one, seen = pinned(1, 0, 2), holding(1, occupancy=Occupancy(pcpus=frozenset({7})))
        state = enrolled(store)
        assert shown() is None
        for change in (
            host,
            created(one),
            Change(cause="audit", at=NOW, holdings=(seen,)),
            released(one),
            Change(cause="reload", at=NOW, policy=Policy()),
        ):
            state = commit(store, state, change)
            assert shown() == numa_topology(state)
        assert [cell["pinned_cpus"] for cell in shown()["cells"]] == [[], [7]]

    @pytest.mark.parametrize("wrong", [missing, too_many, another_owner])
    def test_the_claims_are_right_and_the_rows_are_made_anew(
        self,
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

    def test_a_unit_that_no_claim_holds_is_told_and_freed(
        self, engine: Engine, caplog: pytest.LogCaptureFixture
    ):
        store = SqlStore(engine)
        state = commit(store, enrolled(store), created(ONE))
        with engine.begin() as connection:
            connection.execute(insert(units), unit_row(TWO, 9))
        holds(store, state)
        assert "the database keeps PCPU 9 for no claim" in caplog.text
        enrolled(store)
        assert rows(engine) == held(ONE)

    def test_records_that_give_a_unit_to_two_owners_are_left_for_the_core_to_refuse(
        self, engine: Engine
    ):
        store = SqlStore(engine)
        state = commit(store, enrolled(store), created(ONE, TWO))
        with engine.begin() as connection:
            document = select(claims.c.document).where(claims.c.uuid == ONE.uuid)
            twice = connection.scalar(document)
            connection.execute(
                update(claims).where(claims.c.uuid == TWO.uuid).values(document=twice)
            )
        stored = store.reload(NODE.uuid, state.epoch)
        assert rows(engine) == held(ONE, TWO)
        with pytest.raises(InvariantViolated, match="two owners"):
            restored(stored, POLICY).check()

    def test_a_claim_that_cannot_be_read_keeps_its_units(self, engine: Engine):
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
