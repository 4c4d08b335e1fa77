"""A database that goes back in time while the daemon runs, and while it is stopped."""

import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from retrying import Retrying

from rtagent.db import migrate
from rtagent.db.engine import open_engine
from tests.functional.cli.shell import Outcome, run
from tests.servers import RabbitMQ
from tests.servers.daemon import Daemon, wait_until
from tests.support.stores import SqlDatabase

#: Seconds for what a copy waits for: the locks of the agent's transactions, on a busy machine.
PATIENCE = 60
SMALL = ("--vcpus", "1", "--memory", "16", "--root-gb", "0")


@pytest.fixture
def daemon(tmp_path: Path, rabbitmq: RabbitMQ) -> Iterator[Daemon]:
    host = {"host": f"agent-{uuid.uuid4()}", "report_interval": 1}
    made = Daemon(tmp_path / "agent", rabbitmq.transport_url, config={"DEFAULT": host})
    yield made
    made.close()


def rtagent(daemon: Daemon, *argv: str) -> Outcome:
    return run("--config-file", str(daemon.config_file), *argv)


def create(daemon: Daemon) -> Outcome:
    return rtagent(daemon, "claim", "create", "--instance", str(uuid.uuid4()), *SMALL, "-f", "json")


def store(daemon: Daemon) -> dict[str, Any]:
    check: dict[str, Any] = daemon.read("health")["checks"]["store"][0]
    return check


def states(daemon: Daemon) -> dict[str, str]:
    return {claim["uuid"]: claim["state"] for claim in daemon.read("claims")["claims"]}


def serve(daemon: Daemon) -> None:
    daemon.start().wait_ready()
    wait_until(lambda: daemon.read("health")["checks"].get("rpc", [{}])[0].get("status") == "pass")


def test_claims_undone_under_an_idle_agent_are_noticed(daemon, postgresql):
    url = postgresql.create_database()
    engine = open_engine(url, PATIENCE)
    migrate.sync(engine)
    daemon.configure({"database": {"connection": url}, "claims": {"claim_expiry_time": 600}})
    serve(daemon)
    activated = create(daemon).json
    copies = SqlDatabase(engine)
    copy = copies.take()
    assert rtagent(daemon, "claim", "activate", activated["uuid"]).code == 0
    lost = create(daemon).json
    revision = daemon.read("nodes")["nodes"][0]["revision"]

    # The agent's heartbeat may take locks in another order.
    Retrying(stop_max_attempt_number=10, wait_fixed=500).call(copies.put, copy)

    wait_until(lambda: store(daemon)["status"] == "fail" and "claims differ" in str(store(daemon)))
    daemon.wait_logged(f"claim {activated['uuid']} of ")
    daemon.wait_logged(f"claim {lost['uuid']} of ")
    assert f"from revision {revision} " in store(daemon)["output"]
    assert states(daemon) == {activated["uuid"]: "building"}
    assert daemon.read("nodes")["nodes"][0]["revision"] > revision
    refused = create(daemon)
    assert refused.code == 4 and "rtagent node accept-restore" in refused.err
    daemon.wait_notified("STATUS=not granting (the database went back")

    shown = rtagent(daemon, "node", "accept-restore", "-f", "json")
    assert {row["uuid"]: (row["acknowledged"], row["found"]) for row in shown.json} == {
        activated["uuid"]: ("active", "building"),
        lost["uuid"]: ("building", "missing"),
    }
    seen = shown.err.rpartition("--revision ")[2].strip()
    daemon.terminate()
    serve(daemon)
    assert store(daemon)["status"] == "fail"
    assert create(daemon).code == 4
    assert rtagent(daemon, "node", "accept-restore", "--revision", "1").code == 6
    accepted = rtagent(daemon, "node", "accept-restore", "--revision", seen, "-f", "json")
    assert accepted.code == 0, accepted.err
    assert "claims are created again" in accepted.err
    assert store(daemon)["status"] == "pass"
    assert create(daemon).code == 0
    assert rtagent(daemon, "node", "accept-restore").err.startswith(
        "rtagent: the database was not restored"
    )
    engine.dispose()


def test_older_backup_of_the_embedded_database_is_noticed_at_the_start(daemon, tmp_path):
    serve(daemon)
    kept = create(daemon).json["uuid"]
    backup = tmp_path / "backup.sqlite"
    assert rtagent(daemon, "db", "backup", str(backup)).code == 0
    lost = create(daemon).json["uuid"]
    refused = rtagent(daemon, "db", "restore", str(backup))
    assert refused.code != 0 and "rtagentd runs: stop it first" in refused.err
    daemon.terminate()
    database = daemon.directory / "rtagent.sqlite"
    restored = rtagent(daemon, "db", "restore", str(backup))
    assert restored.code == 0, restored.err
    assert "before rtagent node accept-restore" in restored.out
    (replaced,) = daemon.directory.glob("rtagent.sqlite.replaced-*Z")
    assert str(replaced) in restored.out
    with closing(sqlite3.connect(replaced)) as connection:
        assert (lost,) in connection.execute("SELECT uuid FROM claims").fetchall()

    serve(daemon)

    assert store(daemon)["status"] == "fail"
    assert "does not know which claims" in store(daemon)["output"]
    assert set(states(daemon)) == {kept} and lost not in states(daemon)
    assert create(daemon).code == 4
    assert rtagent(daemon, "claim", "release", kept).code == 0

    daemon.kill()
    with closing(sqlite3.connect(database)) as connection, connection:
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            if not table.startswith("alembic"):
                connection.execute(f"DELETE FROM {table}")
    serve(daemon)
    assert "(epoch 0)" in store(daemon)["output"], "an emptied database is an older one, too"
