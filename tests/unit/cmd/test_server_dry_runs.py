"""``--dry-run`` of the commands that remove servers, and what is owed to their hosts."""

from pathlib import Path

import pytest

from rtagent.conductor.run import Progress
from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.server_rows import SqlServerStore
from rtagent.model.request import Flavor
from rtagent.model.server import Place, RequestSpec, Server, ServerOperation
from tests.functional.cli.shell import Run, configured
from tests.support.hosts import NOON, uid

SERVER, OWED, BUSY = uid(1), uid(21), uid(22)
SPEC = RequestSpec(flavor=Flavor(vcpus=1, memory_mb=512))
PLACE = Place(host="cn1", node_uuid=uid(5), claim={"uuid": uid(6)})


@pytest.fixture
def store(tmp_path: Path) -> SqlServerStore:
    engine = open_engine(f"sqlite:///{tmp_path}/servers.sqlite", 5)
    migrate.ready(engine)
    store = SqlServerStore(engine)
    progress = Progress(spec=SPEC, was="active", source=PLACE).document()
    owed = operation(OWED, kind="clear-evacuated", step="undefine", progress=progress)
    build = operation(uid(20), kind="build", step="select", owner=uid(9))
    store.begin(build, server(operation_uuid=build.uuid), None)
    done = operation(uid(20), kind="build", step="report", state="done", owner=uid(9))
    store.save(done, server(), owed=(owed,))
    return store


@pytest.fixture
def rtagent(tmp_path: Path, store: SqlServerStore) -> Run:
    return configured(tmp_path, f"[conductor]\nconnection = sqlite:///{tmp_path}/servers.sqlite\n")


def server(**fields):
    web = {"uuid": SERVER, "name": "web-1", "spec": SPEC, "vm_state": "active", "place": PLACE}
    return Server(**web, created_at=NOON, updated_at=NOON, **fields)


def operation(uuid, **fields):
    times = {"created_at": NOON, "updated_at": NOON}
    return ServerOperation(uuid=uuid, server_uuid=SERVER, **times, **fields)


def test_server_that_would_be_deleted_is_shown_and_stays(rtagent: Run, store: SqlServerStore):
    tested = rtagent("server", "delete", "web-1", "--dry-run")
    assert tested.code == 0
    assert f"server web-1 ({SERVER}) would be deleted; it has claims on: cn1" in tested.err
    assert store.servers() == [server()]
    assert rtagent("server", "delete", "web-2", "--dry-run").code != 0


def test_server_that_an_operation_runs_on_would_not_be_deleted(rtagent: Run, store: SqlServerStore):
    stop = operation(BUSY, kind="stop", step="stop", owner=uid(9))
    assert store.begin(stop, server(operation_uuid=BUSY), server()) == "begun"
    refused = rtagent("server", "delete", "web-1", "--dry-run")
    assert refused.code != 0
    assert f"the operation {BUSY} runs on it" in refused.err
    forced = ("--force", "--reason", "it hangs")
    assert "would be deleted" in rtagent("server", "delete", "web-1", *forced, "--dry-run").err
    assert store.operation(BUSY) == stop


def test_owed_operation_that_would_end_is_shown_and_stays(rtagent: Run, store: SqlServerStore):
    tested = rtagent("server", "owed", "drop", OWED, "--reason", "it burnt", "--dry-run")
    assert tested.code == 0
    assert f"clear-evacuated of server {SERVER} at cn1 would be given up" in tested.err
    assert store.operation(OWED).state == "running"
    unknown = rtagent("server", "owed", "drop", uid(99), "--reason", "-", "--dry-run")
    assert f"no unfinished operation {uid(99)} is known" in unknown.err


def test_a_resume_without_an_interrupted_operation_says_so(rtagent: Run):
    assert rtagent("server", "owed", "drop", OWED, "--reason", "it burnt").code == 0
    assert rtagent("server", "resume") == (0, "", "rtagent: no operation is interrupted\n")
