"""A database of an earlier release is upgraded without loss, on every database.

``tests/data/schema_0003.json`` has the rows of a database as the last release with schema 0003
wrote them (``tables``), and what that release read from them (``nodes``).
"""

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from sqlalchemy import DateTime, Engine, MetaData, delete, insert, select, text, update

from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.schema import claim_units, claims, metadata, migrations, units
from rtagent.db.store import SqlStore
from rtagent.model.claim import RESOURCE
from rtagent.model.node import NodeRecord
from rtagent.model.node_state import restore
from rtagent.model.policy import Policy
from rtagent.ports import Enroll

OLD = json.loads((Path(__file__).parents[2] / "data" / "schema_0003.json").read_text())
NODES = sorted(OLD["nodes"])
#: Names of today, by the names with which schema 0003 was read.
RENAMED = {
    "holdings": "domain_usages",
    "specific": "resource_inventories",
    "makers": "mdev_parents",
}


def fill(engine: Engine) -> None:
    """Insert the rows of the old release into the tables as they are now."""
    tables = MetaData()
    tables.reflect(engine)
    with engine.begin() as connection:
        for table in metadata.sorted_tables:
            if table.name not in OLD["tables"]:
                continue
            there = tables.tables[table.name]
            moments = [c.name for c in there.columns if isinstance(c.type, DateTime)]
            rows = [dict(row) for row in OLD["tables"][table.name]]
            for row in rows:
                for name in moments:
                    row[name] = row[name] and datetime.fromisoformat(row[name])
            connection.execute(insert(there), rows)


def run_script(engine: Engine, statements: str) -> None:
    """Execute what ``rtagent db sync --sql`` prints."""
    with engine.begin() as connection:
        for statement in statements.split(";\n"):
            if statement.strip() not in ("", "BEGIN", "COMMIT"):
                connection.execute(text(statement.replace(":", r"\:")))


@pytest.fixture(scope="module", params=["online", "script"])
def upgraded(request: pytest.FixtureRequest, empty_database: Callable[[], str]) -> Iterator[Engine]:
    """A database with the old release's rows, upgraded in either way. No test writes to it."""
    url = empty_database()
    engine = open_engine(url, 30)
    if request.param == "online":
        migrate.sync(engine, "0003")
        fill(engine)
        migrate.sync(engine)
    else:
        before, marker, after = migrate.script(url).partition("-- Running upgrade 0003")
        run_script(engine, before)
        fill(engine)
        run_script(engine, marker + after)
    migrate.check(engine)
    yield engine
    engine.dispose()


def always(record: NodeRecord) -> Enroll:
    """Return a rule that writes this record."""
    return lambda _: record


def plain(value: Any) -> Any:
    """The value as JSON has it; sets are sorted."""
    return json.loads(json.dumps(msgspec.to_builtins(value, str_keys=True, order="deterministic")))


def renamed(value: Any) -> Any:
    """What the old release read, under the names of today."""
    if isinstance(value, dict):
        return {RENAMED.get(key, key): renamed(each) for key, each in value.items()}
    if isinstance(value, list):
        return [renamed(each) for each in value]
    return value


def with_parents(claim: dict[str, Any]) -> dict[str, Any]:
    """Return a claim of the old release, which called the address of a parent device provider."""
    resources = [
        each | {"parent_addr": each["provider"] or None, "provider": None}
        for each in claim["resources"]
    ]
    return claim | {"resources": resources}


def with_fields_of(old: Any, value: Any) -> Any:
    """Return what was read now without fields that the old release did not have. They must be
    empty."""
    if isinstance(old, list) and isinstance(value, list) and len(old) == len(value):
        return [with_fields_of(*pair) for pair in zip(old, value, strict=True)]
    if isinstance(old, dict) and isinstance(value, dict):
        assert not any(each for name, each in value.items() if name not in old)
        return {name: with_fields_of(old[name], value[name]) for name in old if name in value}
    return value


def by_id(stored: dict[str, Any]) -> dict[str, Any]:
    """Rows come in any order: sort those that have an id."""
    keys = {"claims": "uuid", "domain_usages": "domain_uuid", "migrations": "uuid"}
    return stored | {
        name: sorted(stored[name], key=lambda row: row[key]) for name, key in keys.items()
    }


@pytest.mark.parametrize("node", NODES)
def test_upgraded_database_loads_the_state_of_the_old_release(upgraded: Engine, node: str):
    store, before = SqlStore(upgraded), OLD["nodes"][node]
    stored = store.load(node)
    expected = renamed(before["stored"])
    expected["epoch"] += 2  # each upgrade fences a process of the older release that still runs
    expected |= {"damage": [], "unknown": []}
    expected["claims"] = [with_parents(claim) for claim in expected["claims"]]
    expected = by_id(expected)
    assert with_fields_of(expected, by_id(plain(stored))) == expected
    assert plain(store.history(node)) == before["history"]
    for operation_id, outcome in before["operations"].items():
        assert plain(store.operation(node, operation_id)) == outcome
    state = restore(stored, Policy())
    state.check()
    held = {(kind.replace("SPECIFIC", RESOURCE), unit): o for kind, unit, o in before["units"]}
    assert dict(state.units) == held


def test_upgrade_renames_units_and_keeps_their_owners(upgraded: Engine):
    with upgraded.connect() as connection:
        for table in (units, claim_units):
            rows = connection.execute(select(table)).mappings().all()
            before = [
                row | {"kind": row["kind"].replace("SPECIFIC", RESOURCE)}
                for row in OLD["tables"][table.name]
            ]
            assert sorted(map(dict, rows), key=repr) == sorted(before, key=repr)


def test_upgraded_database_loads_without_repairs(
    upgraded: Engine, caplog: pytest.LogCaptureFixture
):
    for node in NODES:
        stored = SqlStore(upgraded).load(node)
        assert not stored.damage and not stored.unknown
    told = [record for record in caplog.records if record.name.startswith("rtagent.db")]
    assert told == []  # threads of other parts may log at any time


def test_first_enrollment_gives_digests_by_which_damage_is_noticed(
    empty_database: Callable[[], str],
):
    engine = open_engine(empty_database(), 30)
    migrate.sync(engine, "0003")
    fill(engine)
    migrate.sync(engine)
    store = SqlStore(engine)
    for node in NODES:
        before = store.load(node)
        record = NodeRecord(node=before.node, epoch=before.epoch + 1, revision=before.revision)
        name = before.node.hypervisor_hostname
        again = SqlStore(engine).enroll(node, name, always(record))
        assert replace(again, epoch=before.epoch) == before
        assert store.load(node) == again
    with engine.begin() as connection:
        connection.execute(update(claims).values(vcpus=claims.c.vcpus + 1))
        connection.execute(delete(migrations))
    for node in NODES:
        stored = store.load(node)
        assert len(stored.damage) == len(stored.claims)
        assert all(claim.quarantined for claim in stored.claims)
        had = any(row["node_uuid"] == node for row in OLD["tables"]["migrations"])
        assert bool(stored.unknown) == had
    engine.dispose()


def test_interrupted_upgrade_is_repeated(empty_database: Callable[[], str]):
    engine = open_engine(empty_database(), 30)
    migrate.sync(engine, "0003")
    fill(engine)
    migrate.sync(engine)
    with engine.begin() as connection:  # the connection was lost before the version was recorded
        connection.execute(text("UPDATE alembic_version SET version_num = '0003'"))
    migrate.sync(engine)
    migrate.check(engine)
    for node in NODES:
        assert SqlStore(engine).load(node).claims
    engine.dispose()
