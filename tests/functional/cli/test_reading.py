"""The commands that read, with a read API in this process."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from rtagent.api.address import UnixAddress
from rtagent.api.server import ReadAPI
from rtagent.model.node_state import NodeState
from tests.functional.cli.shell import Run, run
from tests.support.api_states import NODE, empty, moved, sources, uuid
from tests.support.owned_hosts import (
    CLAIMS,
    FOREIGN_DOMAIN,
    VGPU,
    WEB,
    devices_in_every_state,
    pinned_host,
)
from tests.support.pci_hosts import GPU_0, vf


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Return a function that serves a state and returns a function that runs commands on it."""
    started: list[ReadAPI] = []

    def start(state: NodeState | None = None, *, stale: bool = False) -> Run:
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


def test_a_list_has_the_same_content_in_every_format(rtagent):
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


def test_an_item_has_the_same_content_in_every_format(rtagent):
    command = ["claim", "show", uuid(1), "-c", "uuid", "-c", "state", "-c", "memory_mb", "-f"]
    shown = {"uuid": uuid(1), "state": "active", "memory_mb": 1024}
    assert json.loads(rtagent(*command, "json").out) == shown
    assert yaml.safe_load(rtagent(*command, "yaml").out) == shown
    (row,) = csv.DictReader(io.StringIO(rtagent(*command, "csv").out))
    assert row == {name: str(value) for name, value in shown.items()}
    assert rtagent(*command, "value").out.split() == list(row.values())


def test_claim_list_filters_claims(rtagent):
    for filters, expected in (
        (["--state", "active"], [uuid(1)]),
        (["--instance", uuid(102)], [uuid(2)]),
    ):
        listed = rtagent("claim", "list", *filters, "-f", "value", "-c", "uuid")
        assert (listed.code, listed.out.split()) == (0, expected)


def test_a_list_is_sorted_by_a_column_that_is_empty_in_some_rows(rtagent):
    columns = ("-f", "json", "--long", "-c", "expires_at", "-c", "uuid")
    ascending, descending = (
        [each["uuid"] for each in rtagent("claim", "list", *columns, *order).json]
        for order in (
            ("--sort-column", "expires_at"),
            ("--sort-column", "expires_at", "--sort-descending"),
        )
    )
    assert ascending == [uuid(2), uuid(1)] and descending == [uuid(1), uuid(2)]


def test_claim_show_prints_times_in_whole_utc_seconds(rtagent):
    claim = json.loads(rtagent("claim", "show", uuid(2), "-f", "json").out)
    assert claim["instance_uuid"] == uuid(102)
    assert claim["created_at"] == "2030-01-02T03:04:07Z"
    assert claim["expires_at"] == "2030-01-02T03:09:07Z"
    assert claim["flavor"]["memory_mb"] == 1024
    assert claim["suspect"] is None


def test_node_show_prints_capacity_and_usage(rtagent):
    shown = rtagent("node", "show")
    lines = [line.strip("| ").split() for line in shown.out.splitlines()]
    assert ["inventories", "|", "ratio", "total", "reserved", "claimable", "used", "free"] in lines
    assert ["VCPU", "4", "8", "1", "28", "9", "19"] in lines
    assert ["MEMORY_MB", "1", "16384", "512", "15872", "4096", "11776"] in lines
    assert ["DISK_GB", "1", "100", "1", "99", "20", "79"] in lines
    assert ["orphans", "|", "1"] in lines
    assert shown.err == ""


@pytest.mark.parametrize("name", [[], [NODE.uuid], [NODE.hypervisor_hostname]])
def test_node_show_finds_a_node_by_uuid_or_name_or_as_the_only_one(rtagent, name):
    node = json.loads(rtagent("node", "show", *name, "-f", "json").out)
    assert node["uuid"] == NODE.uuid
    assert node["inventories"]["DISK_GB"]["used"] == 20480
    assert node["stats"]["num_instances"] == 2


def test_migration_list_shows_the_moves_of_both_roles(serve):
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


def test_numa_show_prints_a_map_or_the_document(serve):
    rtagent = serve(pinned_host())
    shown = rtagent("numa", "show")
    assert "[ 2 web-1 | 3 web-1! ]" in " ".join(shown.out.split())
    host = json.loads(rtagent("numa", "show", "cn1.example", "-f", "json").out)
    assert [cell["id"] for cell in host["cells"]] == [0, 1]
    assert host["cells"][1]["cores"][-1][0]["use"] == "offline"
    assert rtagent("numa", "show", "other").code == 5


def test_claim_show_prints_the_numa_assignment(serve):
    web, _ = CLAIMS
    shown = serve(pinned_host())("claim", "show", web.uuid, "-c", "numa_topology")
    assert "| guest cell 0: host cell 0, 1024 MB; vCPU on CPU: 0:2 1:3 |" in shown.out


def test_pci_list_shows_owners(serve):
    rtagent = serve(devices_in_every_state())
    listed = json.loads(rtagent("pci", "list", "--status", "claimed", "-f", "json").out)
    assert [(each["address"], each["name"]) for each in listed] == [(vf(0), "db-1")]
    whole = json.loads(rtagent("pci", "show", GPU_0, "-f", "json").out)
    assert (whole["owner_id"], whole["others"]) == (WEB, [FOREIGN_DOMAIN])
    long = json.loads(rtagent("pci", "list", "--long", "--type", "type-PF", "-f", "json").out)
    assert long[0]["tags"] == {"physical_network": "physnet1", "trusted": "yes"}


def test_resource_list_shows_owners(serve):
    rtagent = serve(devices_in_every_state())
    listed = json.loads(rtagent("resource", "list", "--long", "-f", "json").out)
    assert (listed[0]["identifier"], listed[0]["name"]) == (VGPU[0], "web-1")
    assert [each["present"] for each in listed] == [*[True] * 4, False]
    assert "CUSTOM_PMEM_NAMESPACE_4GB" in rtagent("resource", "list").out


@pytest.mark.parametrize("noun", ["claim", "orphan", "drift", "pci", "resource"])
def test_an_empty_list_is_logged_to_standard_error(serve, noun):
    rtagent = serve(empty())
    table = rtagent(noun, "list")
    assert (table.code, table.out) == (0, "")
    assert table.err.startswith("rtagent: no ")
    machine = rtagent("-q", noun, "list", "-f", "json")
    assert (json.loads(machine.out), machine.err) == ([], "")


def test_a_stale_read_is_logged_as_a_warning(serve):
    listed = serve(stale=True)("claim", "list", "-f", "json")
    assert len(json.loads(listed.out)) == 2
    assert listed.err == "rtagent: the agent cannot reach its database: this may be out of date\n"


@pytest.mark.parametrize(
    ("argv", "code", "sentence"),
    [
        (["claim", "show", "gone"], 5, "no claim gone is known here"),
        (["node", "show", "kvm-8"], 5, "node kvm-8 is not served here"),
        (["claim", "list", "--state", "gone"], 2, "not one of active, building"),
        (["claim", "show", ""], 2, "name: must not be empty"),
        (["node", "show", ""], 2, "name: must not be empty"),
        (["claim", "show", "\udcff"], 5, "no claim \ufffd is known here"),
        (["claim", "list", "--state", "\udcff"], 2, "not one of active, building"),
        (["node", "list", "-c", "host", "-c", "hst"], 2, "there is no column 'hst'; there are: "),
        (["node", "show", "-c", ""], 2, "there is no column ''; there are: uuid, host, "),
        (["pci", "list", "--node", "kvm-8"], 5, "node kvm-8 is not served here"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(rtagent, argv, code, sentence):
    outcome = rtagent(*argv)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (code, "", 1)
    assert outcome.err.startswith("rtagent: ")
    assert sentence in outcome.err


@pytest.mark.parametrize("content", [None, b"", b"<domain", b"\xff\xfe"])
def test_claim_domain_refuses_an_invalid_document(rtagent, tmp_path, content):
    file = tmp_path / "domain.xml"
    if content is not None:
        file.write_bytes(content)
    outcome = rtagent("claim", "domain", uuid(1), str(file))
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert outcome.err.startswith(f"rtagent: invalid request to claim domain: {file}: ")
    assert content is not None or outcome.err.endswith(f"{file}: No such file or directory\n")


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (["--timeout", "0", "audit", "run"], "--timeout: '0' is not a number of seconds above 0"),
        (
            ["--timeout", "nan", "audit", "run"],
            "--timeout: 'nan' is not a number of seconds above 0",
        ),
        (["--timeout", "a", "audit", "run"], "--timeout: 'a' is not a number of seconds above 0"),
        (["--timeout", "1e12", "audit", "run"], "--timeout: '1e12' is more than 316224000 seconds"),
        (["placement", "orphans", "delete", ".."], "argument consumer: '..' is not a uuid"),
        (["--socket", "here", "node", "list"], "--socket: 'here' must be an absolute path or"),
        (["db", "purge", "--history", "inf"], "--history: 'inf' is not a number of days"),
        (["db", "purge", "--history", "1e7"], "--history: '1e7' is not a number of days"),
        (["db", "purge", "--history", "-1"], "--history: '-1': must not be negative"),
    ],
)
def test_an_invalid_value_of_an_option_is_a_usage_error(argv, error, capsys):
    with pytest.raises(SystemExit) as ended:
        run(*argv)
    assert ended.value.code == 2
    assert error in capsys.readouterr().err


def test_a_read_without_an_agent_names_the_remedy(tmp_path):
    outcome = run("--socket", str(tmp_path / "none.sock"), "node", "list")
    assert (outcome.code, outcome.out) == (4, "")
    assert "is rtagentd running? (--offline reads the database)" in outcome.err


def test_each_mistake_in_the_configuration_has_a_line(tmp_path):
    file = tmp_path / "rtagent.conf"
    file.write_text("[DEFAULT]\nreport_interval = 0\nstate_path = relative\n")
    outcome = run("--config-file", str(file), "node", "list")
    lines = outcome.err.splitlines()
    assert (outcome.code, outcome.out) == (1, "")
    assert {line.split(" = ")[0] for line in lines} >= {
        "rtagent: [DEFAULT] report_interval",
        "rtagent: [DEFAULT] state_path",
    }


def test_the_socket_is_read_from_the_configuration(tmp_path, serve):
    serve()
    file = tmp_path / "rtagent.conf"
    file.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    assert run("--config-file", str(file), "node", "list").code == 0


def test_capacity_list_shows_room_and_what_is_scarce(serve):
    rtagent = serve(pinned_host())
    (first, _) = json.loads(rtagent("capacity", "list", "-f", "json").out)
    assert first.keys() == {"flavor", "room", "scarce", "where"}
    assert first["scarce"].startswith(("PCPU", "VCPU", "MEMORY_MB", "DISK_GB"))
    assert isinstance(first["room"], int)


def test_capacity_show_places_the_guests_cell_by_cell(serve):
    rtagent = serve(pinned_host())
    shown = json.loads(rtagent("capacity", "show", "unnamed", "-f", "json").out)
    assert shown["room"] == sum(place["builds"] for place in shown["places"])
    assert [cell["id"] for cell in shown["cells"]] == [0, 1]
    assert rtagent("capacity", "show", "none").code == 5


def test_an_empty_catalogue_says_where_flavors_come_from(serve):
    listed = serve(empty())("capacity", "list")
    assert "[capacity] flavors_file" in listed.err
