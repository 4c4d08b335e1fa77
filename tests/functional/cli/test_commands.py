"""All commands: help, output formats, and what those without a format print."""

import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import rtagent
from rtagent.api.address import UnixAddress
from rtagent.api.server import ReadAPI
from rtagent.cmd.base import Action
from rtagent.cmd.rtagent import GROUP, Shell
from rtagent.db import migrate
from rtagent.placement.loading import NOT_CONFIGURED
from tests.functional.cli.shell import run
from tests.servers.daemon import ROOT
from tests.support.api_states import sources
from tests.support.owned_hosts import WEB_CLAIM, devices_in_every_state

POINTS = {point.name.replace("_", " "): point for point in entry_points(group=GROUP)}

#: The commands that print nothing on standard output. Tests of each one assert that.
SILENT = {
    *("aggregate delete", "claim abort", "claim release", "host simulate edit"),
    *("key revoke", "node remove", "node undrain", "pci clear"),
    *("pci quarantine", "server delete", "server owed drop", "server resume"),
    *("service disable", "service enable", "service force-down", "token revoke"),
}


#: The commands that connect to Placement, with arguments that are needed.
NEED_PLACEMENT = {
    "placement diff": (),
    "placement orphans": (),
    "placement orphans delete": ("12345678-1234-4321-8765-123456789012",),
    "placement reshape": ("--dry-run",),
    "placement show": (),
}


# -- help -----------------------------------------------------------------------------------------


def test_the_module_of_the_scheduler_can_be_run():
    """Other tests run those of the agent and of the commands."""
    command = [sys.executable, "-m", "rtagent.cmd.rtagent_scheduler", "--version"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert rtagent.__version__ in ended.stdout + ended.stderr


@pytest.mark.parametrize("argv", [["--version", "-v"], ["-v", "--version"], ["--version"]])
def test_the_version_is_printed_with_what_the_program_runs_on(argv):
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        Shell(out, io.StringIO()).run(argv)
    first, *others = out.getvalue().splitlines()
    assert (ended.value.code, first) == (0, f"rtagent {rtagent.__version__}")
    versions = dict(line.rsplit(" ", 1) for line in others)
    assert bool(others) == ("-v" in argv)
    for library in ("SQLAlchemy", "oslo.messaging", "cryptography") if others else ():
        assert versions[library] == metadata.version(library)
    for name in ("Python", "libvirt", "SQLite") if others else ():
        assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", versions[name])
    assert "installed" not in versions.values()


@pytest.mark.parametrize("argv", [[], ["-v"], ["nonsense"]])
def test_without_a_command_the_help_is_printed(argv):
    try:
        outcome = run(*argv)
    except SystemExit as exit_:
        assert exit_.code == 2
    else:
        assert outcome.code == 2


def test_the_overview_names_every_command():
    overview = (ROOT / "doc/source/cli/index.rst").read_text()
    assert [name for name in POINTS if f":cmd:`{name}`" not in overview] == []


def test_completion_knows_every_command():
    outcome = run("complete")
    assert "cmds_claim='abort activate create" in outcome.out
    assert "complete -F _rtagent rtagent" in outcome.out


def test_help_lists_commands_and_exit_codes():
    listed = run("help").out
    assert "Could not load" not in listed
    for line in ("  3  the host does not have", "  node show ", "  db sync ", "  config check "):
        assert line in listed


def test_the_help_option_alone_prints_the_global_help(capsys):
    with pytest.raises(SystemExit) as ended:
        run("--help")
    assert ended.value.code in (0, None)


@pytest.mark.parametrize("name", POINTS)
def test_the_help_of_a_command_has_formats_and_columns_if_it_prints(name):
    explained = run(*name.split(), "--help")
    assert explained.code == 0
    assert explained.out.startswith(f"usage: rtagent {name} ")
    silent = issubclass(POINTS[name].load(), Action)
    assert silent is (name in SILENT)
    assert ("-c COLUMN" in explained.out) is not silent
    formats = re.search(r"-f {([a-z,]+)}", explained.out)
    assert (formats is None) is silent
    if formats is not None:
        assert {"csv", "json", "table", "value", "yaml"} <= set(formats[1].split(","))


def test_help_may_follow_options_and_arguments():
    expected = run("help", "claim", "create")
    assert run("claim", "create", "--help") == expected
    assert run("claim", "create", "--instance", "x", "-h") == expected
    assert run("--offline", "claim", "create", "--vcpus", "2", "--help") == expected
    assert run("node", "show", "kvm-7", "--help") == run("help", "node", "show")


@pytest.mark.parametrize("noun", sorted({name.split()[0] for name in POINTS} - set(POINTS)))
def test_help_of_a_noun_lists_its_commands(noun):
    listed = run(noun, "--help")
    assert listed.code == 0
    found = [re.split("  +", line.strip())[0] for line in listed.out.splitlines()]
    assert found == sorted(name for name in POINTS if name.split()[0] == noun)


def test_help_of_an_unknown_command_is_a_usage_error():
    outcome = run("nonsense", "--help")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == "rtagent: no command begins with: nonsense\n"


def test_every_command_of_placement_is_in_the_table():
    of_placement = {name for name in POINTS if name.startswith("placement ")}
    assert of_placement == {*NEED_PLACEMENT, "placement sync"}  # which the agent serves


@pytest.mark.parametrize("name", NEED_PLACEMENT)
def test_what_needs_placement_names_the_option_that_is_not_set(name, conf):
    outcome = run("--config-file", str(conf), *name.split(), *NEED_PLACEMENT[name])
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == f"rtagent: {NOT_CONFIGURED}\n"
    assert "[placement] auth_type" in outcome.err


# -- formats --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def conf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a configuration with an embedded database and a simulated host."""
    directory = tmp_path_factory.mktemp("commands")
    host = run("host", "simulate", str(directory / "host.xml"), "-f", "json").json
    file = directory / "rtagent.conf"
    file.write_text(
        f"[DEFAULT]\nstate_path = {directory}\n[libvirt]\nconnection_uri = {host['uri']}\n"
    )
    assert run("--config-file", str(file), "db", "sync").code == 0
    return file


@pytest.fixture(scope="module")
def agent(conf: Path) -> Iterator[None]:
    """A read API at the address of the configuration."""
    api = ReadAPI(UnixAddress(f"{conf.parent}/rtagent.sock"), sources(devices_in_every_state()))
    api.start()
    yield
    api.stop()


@pytest.mark.usefixtures("agent")
@pytest.mark.parametrize(
    ("command", "column"),
    [
        ("claim domain", "document"),
        ("config check", "message"),
        ("config generate", "sample"),
        ("db backup", "file"),
        ("db check", "version"),
        ("db history", "version"),
        ("db purge", "rows"),
        ("db sync", "version"),
        ("db sync --sql", "sql"),
        ("db version", "program"),
        ("host simulate", "uri"),
        ("schema list", "Method"),
        ("schema reference", "reference"),
        ("schema show", "reply"),
        ("upgrade check", "result"),
    ],
)
def test_a_column_is_printed_as_json(command, column, conf, tmp_path):
    domain = tmp_path / "domain.xml"
    domain.write_text("<domain><name>d</name><vcpu>1</vcpu></domain>")
    arguments = {
        "claim domain": [WEB_CLAIM.uuid, str(domain)],
        "db backup": [str(tmp_path / "copy")],
        "host simulate": [str(tmp_path / "other.xml")],
        "schema show": ["ping"],
    }
    argv = [*command.split(), *arguments.get(command, []), "-f", "json", "-c", column]
    outcome = run("-q", "--config-file", str(conf), *argv)
    assert outcome.code == (1 if command == "upgrade check" else 0), outcome.err
    found = json.loads(outcome.out)
    items = found if isinstance(found, list) else [found]
    assert all(list(item) == [column] for item in items)


def test_the_format_text_prints_the_result_alone(conf):
    rtagent = ["--config-file", str(conf), "db", "sync"]
    message = f"The schema is already {migrate.HEAD}."
    assert run(*rtagent).out == run(*rtagent, "-f", "text").out == f"{message}\n"
    assert (
        run(*rtagent, "-f", "text", "-c", "version", "-c", "changed").out == f"{migrate.HEAD}\n\n"
    )
    assert run(*rtagent, "-f", "json").json == {
        "version": migrate.HEAD,
        "changed": False,
        "message": message,
    }
