"""rtagent upgrade check: each result of each check, on a host where an agent has run."""

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from sqlalchemy import text

from rtagent.cmd.rtagent import Shell
from rtagent.cmd.upgrade import LISTED, UpgradeCheck
from rtagent.db import migrate
from rtagent.db.backup import backup
from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.model.base import MAX_ITEMS
from rtagent.model.request import Flavor
from rtagent.virt.simulate import Machine, host_uri, simulate
from tests.functional.cli.shell import Outcome, run
from tests.servers.daemon import Daemon
from tests.support.stored_values import NODE, claim, created
from tests.support.stores import commit, enrolled
from tests.support.workload.deployment import migrated

OK, WARNING, FAILURE, UNEXPECTED = 0, 1, 2, 255
TITLES = [
    *("Configuration", "Options", "Database schema", "Hypervisor"),
    *("State directory and node identity", "Rows of the node", "Placement"),
]
IDENTITY, ROWS = TITLES[4:6]


class Versions(BaseHTTPRequestHandler):
    """The root document of Placement, with the versions of the server, and its first answer to a
    reshape.
    """

    def do_GET(self) -> None:
        low, high = self.server.versions  # type: ignore[attr-defined]
        version = {"id": "v1.0", "min_version": low, "max_version": high, "links": []}
        self._answer(200, {"versions": [version]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        status: int = self.server.reshape  # type: ignore[attr-defined]
        self._answer(status, {"errors": [{"status": status, "detail": "no"}]})

    def _answer(self, status: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """It logs nothing."""


@pytest.fixture
def placement() -> Iterator[HTTPServer]:
    """Serve the versions of Placement; set them as ``placement.versions``, and the status of an
    empty reshape as ``placement.reshape``.
    """
    server = HTTPServer(("127.0.0.1", 0), Versions)
    server.reshape = 400  # type: ignore[attr-defined]
    server.versions = ("1.0", "1.39")  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The state directory of an agent that ran until a moment ago."""
    directory = tmp_path_factory.mktemp("agent")
    with Daemon(directory, "fake://", config={"DEFAULT": {"my_ip": "127.0.0.1"}}) as daemon:
        daemon.wait_ready()
        assert daemon.terminate() == 0
    return directory


class Host:
    """A host whose configuration a test changes before `check`."""

    def __init__(self, directory: Path, file: Path) -> None:
        self.directory, self.file = directory, file
        self.compute_id = directory / "compute_id"
        self.options: dict[str, dict[str, object]] = {
            "DEFAULT": {"host": "agent1", "my_ip": "127.0.0.1", "state_path": directory},
            "libvirt": {"connection_uri": host_uri(directory / "host.xml")},
        }

    def configure(self, group: str, **options: object) -> None:
        self.options.setdefault(group, {}).update(options)

    def run(self, *arguments: str) -> Outcome:
        lines: list[str] = []
        for group, options in self.options.items():
            lines += [f"[{group}]", *(f"{name} = {value}" for name, value in options.items())]
        self.file.write_text("\n".join(lines))
        return run("--config-file", str(self.file), "upgrade", "check", *arguments)

    def check(self, expected: int) -> dict[str, tuple[str, str]]:
        """Return the result and the details by title."""
        outcome = self.run("-f", "json")
        assert outcome.code == expected, (outcome.out, outcome.err)
        return {each["check"]: (each["result"], each["details"]) for each in outcome.json}

    def write_database(self, *statements: str) -> None:
        """Create the schema in the database of the state directory, and change it."""
        engine = open_engine(migrated(f"sqlite:///{self.directory}/rtagent.sqlite"), 5)
        with engine.begin() as connection:
            for statement in statements:
                connection.execute(text(statement))
        engine.dispose()

    def check_part(self, title: str, expected: str, words: str = "") -> str:
        """Check the result of a part, and that its details have these words; return these."""
        result, details = self.check({"Warning": WARNING, "Failure": FAILURE}[expected])[title]
        assert (result, words in details) == (expected, True), details
        return details

    def use_placement(self, port: int) -> None:
        self.configure("placement", auth_type="none", endpoint=f"http://127.0.0.1:{port}")


@pytest.fixture
def host(directory: Path, tmp_path: Path) -> Iterator[Host]:
    host = Host(directory, tmp_path / "rtagent.conf")
    compute_id = host.compute_id.read_text()
    yield host
    host.compute_id.write_text(compute_id)


@pytest.fixture
def new_host(tmp_path: Path) -> Host:
    """A host on which no agent has run."""
    simulate(tmp_path / "host.xml", Machine())
    return Host(tmp_path, tmp_path / "rtagent.conf")


def test_every_check_succeeds_on_a_host_that_is_ready(host, placement):
    host.use_placement(placement.server_port)
    before = sorted(host.directory.iterdir())
    results = host.check(OK)
    assert {title: result for title, (result, _) in results.items()} == dict.fromkeys(
        TITLES, "Success"
    )
    assert results["Database schema"][1] == f"the schema is {migrate.HEAD}"
    assert host.compute_id.read_text().strip() in results[IDENTITY][1]
    assert sorted(host.directory.iterdir()) == before


def test_the_table_is_that_of_oslo_upgradecheck(host):
    outcome = host.run()
    assert outcome.code == WARNING
    lines = [line.strip("| ") for line in outcome.out.splitlines()]
    assert lines[1] == "Upgrade Check Results"
    assert lines[3:6] == ["Check: Configuration", "Result: Success", "Details: None"]


def test_a_new_host_gives_warnings(new_host):
    new_host.check_part("Database schema", "Warning", "does not exist: rtagentd creates it")
    new_host.check_part(IDENTITY, "Warning", "rtagentd starts as a new node")
    assert not (new_host.directory / "rtagent.sqlite").exists()


# -- configuration --------------------------------------------------------------------------------


def test_every_mistake_in_the_configuration_is_a_detail_of_the_failure(host):
    host.configure("DEFAULT", report_interval=0)
    host.configure("api", address="here")
    results = host.check(FAILURE)
    result, details = results["Configuration"]
    assert result == "Failure"
    assert [line.split(" = ")[0] for line in details.splitlines()] == [
        "[DEFAULT] report_interval",
        "[api] address",
    ]
    for title in TITLES[1:]:
        assert results[title] == ("Warning", "not checked: the configuration has mistakes")
    table = host.run().out
    assert "[DEFAULT] report_interval = 0" in table and "| [api] address = here" in table


def test_a_missing_configuration_file_is_a_failure(tmp_path):
    outcome = run("--config-file", str(tmp_path / "none"), "upgrade", "check", "-f", "json")
    assert outcome.code == FAILURE
    assert str(tmp_path / "none") in outcome.json[0]["details"]


def test_deprecated_and_unknown_options_are_warnings(host):
    host.configure("DEFAULT", misspelt=1)
    host.configure("devices", enabled_vgpu_types="nvidia-35, nvidia-36")
    details = host.check_part("Options", "Warning", "only nvidia-35")
    assert [line.removeprefix(f"{host.file}: ") for line in details.splitlines()][:2] == [
        "[devices] enabled_vgpu_types is deprecated: use [devices] enabled_mdev_types",
        "[DEFAULT] misspelt is not an option of the agent",
    ]


# -- database -------------------------------------------------------------------------------------


def test_an_older_schema_is_a_failure_with_the_remedy(new_host):
    new_host.write_database("UPDATE alembic_version SET version_num = '0013'")
    new_host.check_part("Database schema", "Failure", "run rtagent db sync")
    unread = ("Warning", "not checked: the database cannot be read")
    assert new_host.check(FAILURE)[IDENTITY] == unread


def test_a_schema_is_a_failure_if_it_is_newer_by_more_than_one_release(new_host):
    newer = "UPDATE alembic_version SET version_num = '9999'"
    new_host.write_database(newer)
    result, details = new_host.check(WARNING)["Database schema"]
    assert (result, details) == ("Success", "the schema is 9999")
    new_host.write_database(newer, "UPDATE schema_compatibility SET oldest_writer = '9998'")
    new_host.check_part("Database schema", "Failure", "9999, newer than")


def test_an_unreachable_database_is_a_failure(new_host):
    url = "postgresql+psycopg://u:secret@127.0.0.1:9/x"
    new_host.configure("database", connection=url, operation_timeout=1)
    assert "secret" not in new_host.check_part("Database schema", "Failure")


def test_a_database_that_may_lose_commits_is_a_failure(new_host, postgresql):
    url = migrated(postgresql.create_database())
    engine = open_engine(url, 30)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE operations SET UNLOGGED"))
    engine.dispose()
    new_host.configure("database", connection=url)
    new_host.check_part("Database schema", "Failure", "operations is unlogged")


# -- hypervisor and identity ----------------------------------------------------------------------


def test_an_unreachable_libvirt_is_a_failure(host):
    host.configure("libvirt", connection_uri="test:///nowhere/host.xml")
    host.check_part("Hypervisor", "Failure", "/nowhere/host.xml")
    assert host.check(FAILURE)[IDENTITY][0] == "Success"


@pytest.mark.parametrize(
    ("group", "options", "words"),
    [
        ("compute", {"cpu_dedicated_set": "2-99"}, "this host has no CPUs 32-99"),
        ("neutron_tunnel", {"numa_nodes": "0,7"}, "this host has no NUMA cells 7"),
    ],
)
def test_cpus_and_cells_that_the_host_has_not_are_a_warning(host, group, options, words):
    host.configure(group, **options)
    host.check_part("Hypervisor", "Warning", words)


def test_a_missing_state_directory_is_a_warning(host, tmp_path):
    host.configure("DEFAULT", state_path=tmp_path / "none")
    host.check_part(IDENTITY, "Warning", "rtagentd creates it")


def test_a_lost_compute_id_is_a_failure_that_names_the_uuid(host):
    recorded = host.compute_id.read_text().strip()
    host.compute_id.unlink()
    host.check_part(IDENTITY, "Failure", recorded)


@pytest.mark.parametrize("content", ["", "garbage", "{other}"])
def test_a_compute_id_that_is_not_the_records_is_a_failure(host, content):
    host.compute_id.write_text(content.format(other=uuid.uuid4()))
    host.check_part(IDENTITY, "Failure", str(host.compute_id))


def test_a_renamed_host_is_a_failure(host, tmp_path):
    simulate(tmp_path / "host.xml", Machine(hostname="renamed"))
    host.configure("libvirt", connection_uri=host_uri(tmp_path / "host.xml"))
    host.check_part(IDENTITY, "Failure", "renamed")


def test_a_node_without_a_record_is_a_warning(new_host):
    new_host.write_database()
    new_host.compute_id.write_text(f"{uuid.uuid4()}\n")
    new_host.check_part(IDENTITY, "Warning", "has no record")


# -- rows of the node -----------------------------------------------------------------------------


def damage(host: Host, statement: str) -> None:
    """Execute a statement in a copy of the host's database, and have the host use the copy."""
    copy = host.file.with_suffix(".sqlite")
    engine = open_engine(f"sqlite:///{host.directory}/rtagent.sqlite", 5)
    backup(engine, copy)
    engine.dispose()
    host.configure("database", connection=f"sqlite:///{copy}")
    engine = open_engine(f"sqlite:///{copy}", 5)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def test_a_row_that_is_damaged_is_a_warning(host):
    damage(host, "UPDATE compute_nodes SET topology = '{'")
    host.check_part(ROWS, "Warning", "topology")


def test_rows_that_are_not_known_are_a_failure(host):
    damage(host, "UPDATE compute_nodes SET claims_roster = 1")
    result, details = host.check(FAILURE)[ROWS]
    assert (result, details) == ("Failure", "rows of claims are missing, or their keys are damaged")


def test_claims_that_this_release_cannot_read_are_a_failure(new_host):
    engine = open_engine(migrated(f"sqlite:///{new_host.directory}/rtagent.sqlite"), 5)
    store = SqlStore(engine)
    specs = {f"key{number}": "" for number in range(MAX_ITEMS + 1)}
    flavor = Flavor(vcpus=2, memory_mb=1024, root_gb=20, extra_specs=specs)
    commit(store, enrolled(store), created(*(claim(n, flavor=flavor) for n in range(LISTED + 2))))
    engine.dispose()
    new_host.compute_id.write_text(NODE.uuid)
    result, details = new_host.check(FAILURE)[ROWS]
    *lines, last = details.splitlines()
    assert (result, len(lines)) == ("Failure", LISTED)
    assert all("the document of claim" in line for line in lines)
    assert last == f"and {LISTED + 4} more: rtagent db check lists them"


def test_rows_of_a_host_without_a_record_are_not_checked(new_host):
    new_host.write_database()
    result, details = new_host.check(WARNING)[ROWS]
    assert (result, details) == ("Warning", "not checked: the host has no record in the database")


# -- Placement ------------------------------------------------------------------------------------


def test_placement_without_auth_type_is_a_warning(host):
    host.check_part("Placement", "Warning", "auth_type is unset")


@pytest.mark.parametrize("versions", [("1.0", "1.37"), ("1.39", "1.40")])
def test_a_placement_without_the_microversion_is_a_failure(host, placement, versions):
    placement.versions = versions
    host.use_placement(placement.server_port)
    host.check_part("Placement", "Failure", " to ".join(versions))


@pytest.mark.parametrize(
    ("status", "expected", "words"),
    [(403, "Warning", "role service"), (401, "Failure", "answered 401")],
)
def test_a_user_whom_placement_refuses(host, placement, status, expected, words):
    placement.reshape = status
    host.use_placement(placement.server_port)
    host.check_part("Placement", expected, words)


def test_an_unreachable_placement_is_a_failure(host):
    host.use_placement(9)
    host.check_part("Placement", "Failure", "127.0.0.1:9")


# -- unexpected errors ----------------------------------------------------------------------------


def test_an_unexpected_error_has_an_exit_code_of_its_own():
    class Broken:
        @property
        def conf(self) -> Callable[[], None]:
            raise ZeroDivisionError("a defect")

    shell = Shell()
    shell.client = Broken()  # type: ignore[assignment]
    command = UpgradeCheck(shell, None)
    parsed = command.get_parser("upgrade check").parse_args([])
    assert command.run(parsed) == UNEXPECTED
