"""rtagent db, on real databases."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from tests.functional.cli.shell import Outcome, run
from tests.unit.db.cases import commit, enrolled, holds
from tests.unit.db.values import NODE, claim, created, released

Rtagent = Callable[..., Outcome]


@pytest.fixture
def rtagent(tmp_path: Path, database_url: str) -> Rtagent:
    """Runs a command with a configuration for an empty database."""
    conf = tmp_path / "rtagent.conf"
    conf.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n[database]\nconnection = {database_url}\n"
    )
    return lambda *argv: run("--config-file", str(conf), *argv)


def test_an_empty_database_is_made_ready(rtagent: Rtagent):
    assert rtagent("db", "check").code != 0
    assert rtagent("db", "sync").out == f"The schema is now {migrate.HEAD}.\n"
    assert rtagent("db", "sync").out == f"The schema is already {migrate.HEAD}.\n"
    assert rtagent("db", "check").code == 0
    shown = rtagent("db", "version", "-f", "json")
    assert shown.json == {"database": migrate.HEAD, "program": migrate.HEAD}
    first, *_ = rtagent("db", "history", "-f", "json").json
    assert (first["version"], first["applied"]) == ("0001", True)


def test_the_statements_are_printed_and_nothing_is_done(rtagent: Rtagent):
    assert "CREATE TABLE claims" in rtagent("db", "sync", "--sql").out
    assert rtagent("db", "check").code != 0


def test_what_is_old_is_forgotten(rtagent: Rtagent, database_url: str):
    rtagent("db", "sync")
    store = SqlStore(open_engine(database_url, 5))
    old = datetime.now(UTC) - timedelta(days=3)
    live, gone = (claim(n, created_at=old, updated_at=old) for n in (1, 2))
    state = commit(store, enrolled(store), created(live, gone, at=old))
    state = commit(store, state, released(gone, at=old))
    assert rtagent("db", "purge").out == "3 rows are gone.\n"
    assert len(store.history(NODE.uuid)) == 3
    assert rtagent("db", "purge", "--history", "5").out == "0 rows are gone.\n"
    assert rtagent("db", "purge", "--history", "2").out == "2 rows are gone.\n"
    assert [event.claim_uuid for event in store.history(NODE.uuid)] == [live.uuid]
    holds(store, state)


def test_a_copy_is_made_by_us_or_by_the_servers_own_tool(rtagent: Rtagent, tmp_path: Path):
    rtagent("db", "sync")
    copy = tmp_path / "copy"
    outcome = rtagent("db", "backup", str(copy))
    if outcome.code == 0:
        assert migrate.version(open_engine(f"sqlite:///{copy}", 5)) == migrate.HEAD
    else:
        assert "dump" in outcome.err
        assert not copy.exists()
