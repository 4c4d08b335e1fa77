"""rtagent's reading commands, against a read API in this process."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from rtagent.api.address import UnixAddress
from rtagent.api.server import ReadAPI
from rtagent.cmd.rtagent import GROUP
from rtagent.model.host import HostState
from tests.functional.cli.shell import Run, run
from tests.pci_hosts import GPU_0, vf
from tests.unit.api.given import STRANGER, VGPU, WEB, given
from tests.unit.api.moved import moved
from tests.unit.api.placed import CLAIMS, mapped
from tests.unit.api.states import NODE, empty, sources, uuid


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Serve a state; returns what runs a command against it."""
    started: list[ReadAPI] = []

    def start(state: HostState | None = None, *, stale: bool = False) -> Run:
        socket = tmp_path / "rtagent.sock"
        api = ReadAPI(UnixAddress(str(socket)), sources(state, stale=stale))
        api.start()
        started.append(api)
        return lambda *argv: run("--socket", str(socket), *argv)

    yield start
    for api in started:
        api.stop()


@pytest.fixture
def rtagent(serve) -> Run:
    return serve()


def test_lists_are_the_same_in_every_format(rtagent):
    columns = [f"-c{name}" for name in ("uuid", "state", "memory_mb")]
    rows = [(uuid(1), "active", 1024), (uuid(2), "building", 1024)]
    as_json = json.loads(rtagent("claim", "list", *columns, "-f", "json").out)
    as_yaml = yaml.safe_load(rtagent("claim", "list", *columns, "-f", "yaml").out)
    as_csv = list(csv.DictReader(io.StringIO(rtagent("claim", "list", *columns, "-f", "csv").out)))
    as_value = rtagent("claim", "list", *columns, "-f", "value").out
    assert [tuple(row.values()) for row in as_json] == rows
    assert as_yaml == as_json
    assert [(r["uuid"], r["state"], int(r["memory_mb"])) for r in as_csv] == rows
    assert as_value.split() == [str(cell) for row in rows for cell in row]


def test_one_thing_is_the_same_in_every_format(rtagent):
    asked = ["claim", "show", uuid(1), "-c", "uuid", "-c", "state", "-c", "memory_mb", "-f"]
    shown = {"uuid": uuid(1), "state": "active", "memory_mb": 1024}
    assert json.loads(rtagent(*asked, "json").out) == shown
    assert yaml.safe_load(rtagent(*asked, "yaml").out) == shown
    (row,) = csv.DictReader(io.StringIO(rtagent(*asked, "csv").out))
    assert row == {name: str(value) for name, value in shown.items()}
    assert rtagent(*asked, "value").out.split() == list(row.values())


def test_claims_are_filtered(rtagent):
    for filters, expected in (
        (["--state", "active"], [uuid(1)]),
        (["--instance", uuid(102)], [uuid(2)]),
    ):
        listed = rtagent("claim", "list", *filters, "-f", "value", "-c", "uuid")
        assert (listed.code, listed.out.split()) == (0, expected)


def test_a_claim_is_shown_with_its_times_in_whole_utc_seconds(rtagent):
    claim = json.loads(rtagent("claim", "show", uuid(2), "-f", "json").out)
    assert claim["instance_uuid"] == uuid(102)
    assert claim["created_at"] == "2030-01-02T03:04:07Z"
    assert claim["expires_at"] == "2030-01-02T03:09:07Z"
    assert claim["flavor"]["memory_mb"] == 1024
    assert claim["suspect"] is None


def test_a_node_is_shown_with_what_it_has_and_what_is_left(rtagent):
    shown = rtagent("node", "show")
    lines = [line.strip("| ").split() for line in shown.out.splitlines()]
    assert ["inventories", "|", "ratio", "total", "reserved", "claimable", "used", "free"] in lines
    assert ["VCPU", "4", "8", "1", "28", "9", "19"] in lines
    assert ["MEMORY_MB", "1", "16384", "512", "15872", "4096", "11776"] in lines
    assert ["DISK_GB", "1", "100", "1", "99", "20", "79"] in lines
    assert ["orphans", "|", "1"] in lines
    assert shown.err == ""


@pytest.mark.parametrize("name", [[], [NODE.uuid], [NODE.hypervisor_hostname]])
def test_a_node_is_found_by_uuid_or_name_or_as_the_only_one(rtagent, name):
    node = json.loads(rtagent("node", "show", *name, "-f", "json").out)
    assert node["uuid"] == NODE.uuid
    assert node["inventories"]["DISK_GB"]["used"] == 20480
    assert node["stats"]["num_instances"] == 2


def test_moves_are_listed(serve):
    rtagent = serve(moved().state)
    listed = json.loads(rtagent("migration", "list", "-f", "json").out)
    assert [(m["type"], m["role"], m["status"], m["from"], m["to"]) for m in listed] == [
        ("migration", "source", "confirmed", "h1", "h2"),
        ("live-migration", "dest", "preparing", "h3", "h1"),
    ]
    assert rtagent("migration", "list", "--status", "error").out == ""


def test_nodes_orphans_and_drift_are_listed(rtagent):
    (node,) = json.loads(rtagent("node", "list", "-f", "json").out)
    assert (node["vcpus_used"], node["vcpus"], node["drifts"]) == (10, 8, 1)
    (orphan,) = json.loads(rtagent("orphan", "list", "-f", "json").out)
    assert (orphan["name"], orphan["running"], orphan["vcpus"]) == ("instance-900", True, 3)
    (drift,) = json.loads(rtagent("drift", "list", "-f", "json").out)
    assert (drift["instance_uuid"], drift["claimed"], drift["observed"]) == (uuid(101), 2, 4)


def test_the_map_is_drawn_and_its_document_is_told(serve):
    rtagent = serve(mapped())
    shown = rtagent("numa", "show")
    assert "[ 2 web-1 | 3 web-1! ]" in " ".join(shown.out.split())
    host = json.loads(rtagent("numa", "show", "cn1.example", "-f", "json").out)
    assert [cell["id"] for cell in host["cells"]] == [0, 1]
    assert host["cells"][1]["cores"][-1][0]["use"] == "offline"
    assert rtagent("numa", "show", "other").code == 5


def test_a_claims_place_is_shown(serve):
    web, _ = CLAIMS
    shown = serve(mapped())("claim", "show", web.uuid, "-c", "numa_topology")
    assert "| guest cell 0: host cell 0, 1024 MB; vCPU on CPU: 0:2 1:3 |" in shown.out


def test_devices_are_listed_with_who_has_them(serve):
    rtagent = serve(given())
    listed = json.loads(rtagent("pci", "list", "--status", "claimed", "-f", "json").out)
    assert [(each["address"], each["name"]) for each in listed] == [(vf(0), "db-1")]
    whole = json.loads(rtagent("pci", "show", GPU_0, "-f", "json").out)
    assert (whole["owner_id"], whole["others"]) == (WEB, [STRANGER])
    long = json.loads(rtagent("pci", "list", "--long", "--type", "type-PF", "-f", "json").out)
    assert long[0]["tags"] == {"physical_network": "physnet1", "trusted": "yes"}


def test_specific_resources_are_listed_with_who_has_them(serve):
    rtagent = serve(given())
    listed = json.loads(rtagent("resource", "list", "--long", "-f", "json").out)
    assert (listed[0]["identifier"], listed[0]["name"]) == (VGPU[0], "web-1")
    assert [each["present"] for each in listed] == [*[True] * 4, False]
    assert "CUSTOM_PMEM_NAMESPACE_4GB" in rtagent("resource", "list").out


def test_what_is_held_and_gone_is_in_the_drift(serve):
    there = mapped().topology
    assert there is not None
    without = replace(there, cpus=there.cpus - {2})
    rtagent = serve(replace(mapped(), topology=without))
    (gone,) = json.loads(rtagent("drift", "list", "-f", "json").out)
    assert (gone["resource"], gone["problem"]) == ("host CPU 2", "AssignedResourceNotFound")
    assert json.loads(rtagent("node", "show", "-f", "json").out)["absent"] == 1


@pytest.mark.parametrize("noun", ["claim", "orphan", "drift", "pci", "resource"])
def test_an_empty_list_says_so_beside_the_output(serve, noun):
    rtagent = serve(empty())
    table = rtagent(noun, "list")
    assert (table.code, table.out) == (0, "")
    assert table.err.startswith("rtagent: no ")
    machine = rtagent("-q", noun, "list", "-f", "json")
    assert (json.loads(machine.out), machine.err) == ([], "")


def test_stale_reads_say_so(serve):
    listed = serve(stale=True)("claim", "list", "-f", "json")
    assert len(json.loads(listed.out)) == 2
    assert listed.err == "rtagent: the agent cannot reach its database: this may be behind\n"


@pytest.mark.parametrize(
    ("argv", "code", "sentence"),
    [
        (["claim", "show", "gone"], 5, "no claim gone is known here"),
        (["node", "show", "kvm-8"], 5, "node kvm-8 is not served here"),
        (["claim", "list", "--state", "gone"], 2, "not one of active, building"),
    ],
)
def test_an_error_is_one_line_and_a_stable_code(rtagent, argv, code, sentence):
    outcome = rtagent(*argv)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (code, "", 1)
    assert outcome.err.startswith("rtagent: ")
    assert sentence in outcome.err


@pytest.mark.parametrize("content", [None, b"", b"<domain", b"\xff\xfe"])
def test_a_domains_document_that_is_none_is_told(rtagent, tmp_path, content):
    file = tmp_path / "domain.xml"
    if content is not None:
        file.write_bytes(content)
    outcome = rtagent("claim", "domain", uuid(1), str(file))
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith(f"rtagent: invalid request to claim domain: {file}: ")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--timeout", "0", "audit", "run"], "--timeout: '0' is no number of seconds above 0"),
        (["--timeout", "nan", "audit", "run"], "--timeout: 'nan' is no number of seconds above 0"),
        (["--timeout", "a", "audit", "run"], "--timeout: 'a' is no number of seconds above 0"),
        (["--socket", "here", "node", "list"], "--socket: 'here' must be an absolute path or"),
        (["db", "purge", "--history", "inf"], "--history: 'inf' is no number of days"),
        (["db", "purge", "--history", "1e7"], "--history: '1e7' is no number of days"),
        (["db", "purge", "--history", "-1"], "--history: '-1': must not be negative"),
    ],
)
def test_an_options_value_that_cannot_be_is_a_mistake_of_usage(argv, said, capsys):
    with pytest.raises(SystemExit) as ended:
        run(*argv)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_without_an_agent_the_remedy_is_named(tmp_path):
    outcome = run("--socket", str(tmp_path / "none.sock"), "node", "list")
    assert (outcome.code, outcome.out) == (4, "")
    assert "is rtagentd running? (--offline reads the database)" in outcome.err


def test_every_mistake_in_the_configuration_has_a_line(tmp_path):
    file = tmp_path / "rtagent.conf"
    file.write_text("[DEFAULT]\nreport_interval = 0\nstate_path = relative\n")
    outcome = run("--config-file", str(file), "node", "list")
    lines = outcome.err.splitlines()
    assert (outcome.code, outcome.out) == (1, "")
    assert {line.split(" = ")[0] for line in lines} >= {
        "rtagent: [DEFAULT] report_interval",
        "rtagent: [DEFAULT] state_path",
    }


def test_the_socket_is_that_of_the_configuration(tmp_path, serve):
    serve()
    file = tmp_path / "rtagent.conf"
    file.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    assert run("--config-file", str(file), "node", "list").code == 0


@pytest.mark.parametrize("argv", [[], ["-v"], ["nonsense"]])
def test_without_a_command_there_is_help(argv):
    try:
        outcome = run(*argv)
    except SystemExit as exit_:
        assert exit_.code == 2
    else:
        assert outcome.code == 2


def test_completion_knows_every_command():
    outcome = run("complete")
    assert "cmds_claim='abort activate create" in outcome.out
    assert "complete -F _rtagent rtagent" in outcome.out


def test_help_lists_every_command_and_every_exit_code():
    listed = run("help").out
    assert "Could not load" not in listed
    for line in ("  3  the host cannot hold", "  node show ", "  db sync ", "  config check "):
        assert line in listed


@pytest.mark.parametrize("name", [point.name for point in entry_points(group=GROUP)])
def test_every_command_explains_itself(name):
    words = name.split("_")
    explained = run("help", *words)
    assert explained.code == 0
    assert explained.out.startswith(f"usage: rtagent {' '.join(words)} ")
