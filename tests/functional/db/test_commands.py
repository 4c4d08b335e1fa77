"""The rtagent db commands, on every database."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import delete, text, update

from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.schema import claims
from rtagent.db.store import SqlStore
from rtagent.errors import WriterFenced
from rtagent.model.stored import Retention
from tests.functional.cli.shell import Outcome, run
from tests.support.stored_values import NODE, claim, created, released
from tests.support.stores import assert_loads, commit, enrolled

Rtagent = Callable[..., Outcome]


@pytest.fixture
def rtagent(tmp_path: Path, database_url: str) -> Rtagent:
    """Return a function that runs a command with a configuration for an empty database."""
    conf = tmp_path / "rtagent.conf"
    conf.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = {database_url}\n"
    )
    return lambda *argv: run("--config-file", str(conf), *argv)


def test_db_sync_upgrades_an_empty_database(rtagent: Rtagent):
    assert rtagent("db", "check").code != 0
    assert rtagent("db", "sync").out == f"The schema is now {migrate.HEAD}.\n"
    assert rtagent("db", "sync").out == f"The schema is already {migrate.HEAD}.\n"
    assert rtagent("db", "check").code == 0
    shown = rtagent("db", "version", "-f", "json")
    assert shown.json == {
        "database": migrate.HEAD,
        "program": migrate.HEAD,
        "oldest_writer": migrate.OLDEST,
    }
    first, *_ = rtagent("db", "history", "-f", "json").json
    assert (first["version"], first["applied"]) == (migrate.BASE, True)


def test_commands_work_on_the_schema_of_the_next_release(rtagent: Rtagent, database_url: str):
    rtagent("db", "sync")
    assert migrate.HEAD in rtagent("db", "check").out
    with open_engine(database_url, 30).begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9998'"))
    assert rtagent("db", "sync").out == "The schema is already 9998.\n"
    checked = rtagent("db", "check")
    assert (checked.code, "is 9998; this program's is" in checked.out) == (0, True)
    assert rtagent("db", "purge").code == 0
    assert rtagent("db", "version", "-f", "json").json["database"] == "9998"


def test_db_sync_sql_prints_statements_and_changes_nothing(rtagent: Rtagent):
    assert "CREATE TABLE claims" in rtagent("db", "sync", "--sql").out
    assert rtagent("db", "check").code != 0


def test_db_purge_deletes_old_rows(rtagent: Rtagent, database_url: str):
    rtagent("db", "sync")
    store = SqlStore(open_engine(database_url, 30))
    old = datetime.now(UTC) - timedelta(days=3)
    live, gone = (claim(n, created_at=old, updated_at=old) for n in (1, 2))
    state = commit(store, enrolled(store), created(live, gone, at=old))
    state = commit(store, state, released(gone, at=old))
    # The age counts, not the time.
    kept = Retention().after(0, state.revision, {}).after(86400, state.revision, {})
    store.purge(NODE.uuid, 0, kept)
    assert rtagent("db", "purge").out == "0 rows are deleted.\n"
    store.purge(NODE.uuid, 0, kept.after(1, state.revision, {}))
    assert rtagent("db", "purge", "--dry-run").out == "3 rows would be deleted.\n"
    assert rtagent("db", "purge").out == "3 rows are deleted.\n"
    assert len(store.history(NODE.uuid)) == 3
    assert rtagent("db", "purge", "--history", "5").out == "0 rows are deleted.\n"
    history = ("db", "purge", "--history", "2")
    assert rtagent(*history, "--dry-run").out == "2 rows would be deleted.\n"
    assert rtagent(*history).out == "2 rows are deleted.\n"
    assert [event.claim_uuid for event in store.history(NODE.uuid)] == [live.uuid]
    assert_loads(store, state)


def test_damaged_rows_are_listed_and_accepted(rtagent: Rtagent, database_url: str):
    rtagent("db", "sync")
    assert rtagent("db", "accept").out == "No row is damaged.\n"
    engine = open_engine(database_url, 30)
    store = SqlStore(engine)
    state = commit(store, enrolled(store), created(claim(1), claim(2), claim(4)))
    with engine.begin() as connection:
        hidden = claims.c.uuid == claim(4).uuid
        connection.execute(update(claims).where(hidden).values(state="released", document="{"))
        damaged = claims.c.uuid == claim(1).uuid
        connection.execute(update(claims).where(damaged).values(vcpus=7))
        connection.execute(delete(claims).where(claims.c.uuid == claim(2).uuid))
    assert store.load(NODE.uuid).unknown
    listed = rtagent("db", "check")
    assert listed.code == 1
    assert f"claims {claim(1).uuid}: damaged (digest)" in listed.err
    assert "rows of claims are missing" in listed.err
    tested = rtagent("db", "accept", "--dry-run").out
    assert tested.startswith("Would be accepted:\nclaims ")
    assert rtagent("db", "check").code == 1
    assert rtagent("db", "accept").out.startswith("Accepted:\nclaims ")
    with pytest.raises(WriterFenced):
        commit(store, state, created(claim(3)))
    accepted = enrolled(store)
    assert not accepted.damage
    assert not accepted.unknown
    assert {each.uuid: each.vcpus for each in accepted.claims.values()} == {
        claim(1).uuid: 7,
        claim(4).uuid: 2,
    }
    assert not any(each.suspect for each in accepted.claims.values())
    assert rtagent("db", "check").code == 0


def test_db_backup_copies_sqlite_and_names_the_tool_of_a_server(rtagent: Rtagent, tmp_path: Path):
    rtagent("db", "sync")
    copy = tmp_path / "copy"
    outcome = rtagent("db", "backup", str(copy))
    if outcome.code == 0:
        assert migrate.version(open_engine(f"sqlite:///{copy}", 5)) == migrate.HEAD
    else:
        assert "dump" in outcome.err
        assert not copy.exists()
