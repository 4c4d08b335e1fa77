"""The commands that show and change what a scheduler knows."""

import json

import pytest

from tests.functional.cli.shell import run
from tests.functional.scheduler.conftest import HOSTS
from tests.support.hosts import uid
from tests.support.scheduler_rpc import spec

PLAIN = ("--vcpus", "1", "--memory", "512")


@pytest.fixture
def rtagent(scheduler, bus):
    return lambda *argv: run("--config-file", str(scheduler.config_file), *argv)


def test_host_list_shows_the_hosts_of_the_scheduler(rtagent):
    listed = rtagent("host", "list", "-f", "json")
    assert listed.code == 0, listed.err
    assert [row["host"] for row in listed.json] == list(HOSTS)
    assert {row["state"] for row in listed.json} == {"up"}
    assert {row["vcpus_total"] for row in listed.json} == {8}
    long = rtagent("host", "list", "--long", "-f", "json").json
    assert {row["revision"] for row in long} == {1}
    assert "| cn1 " in rtagent("host", "list").out


def test_host_show_takes_every_name_of_the_host(rtagent):
    by_name = rtagent("host", "show", "cn2", "-f", "json").json
    assert (by_name["host"], by_name["instances"], by_name["free_ram_mb"]) == ("cn2", [], 16384)
    for name in (by_name["uuid"], by_name["nodename"]):
        assert rtagent("host", "show", name, "-f", "json").json["uuid"] == by_name["uuid"]
    unknown = rtagent("host", "show", "cn9")
    assert (unknown.code, unknown.out) == (5, "")
    assert "the scheduler knows no host cn9: rtagent host list shows the hosts" in unknown.err


def test_commands_need_the_scheduler_of_this_machine(scheduler, rtagent, tmp_path):
    missing = rtagent("--socket", str(tmp_path / "none"), "host", "list")
    assert missing.code == 4
    assert "is rtagent-scheduler running on this machine?" in missing.err
    offline = rtagent("--offline", "host", "list")
    assert offline.code == 2
    assert "--offline" in offline.err


def test_the_life_of_an_aggregate(rtagent):
    made = rtagent("aggregate", "create", "fast", "--zone", "east", "--property", "ssd=true")
    assert made.code == 0, made.err
    added = rtagent("aggregate", "add", "host", "fast", "cn1", "-f", "json").json
    assert added["hosts"] == ["cn1"]
    assert added["metadata"] == {"availability_zone": "east", "ssd": "true"}
    (row,) = rtagent("aggregate", "list", "-f", "json").json
    assert (row["name"], row["uuid"], row["hosts"]) == ("fast", added["uuid"], ["cn1"])
    host = rtagent("host", "show", "cn1", "-f", "json").json
    assert (host["availability_zone"], host["aggregates"]) == ("east", ["fast"])

    changed = rtagent(
        *("aggregate", "set", "fast", "--name", "faster", "--unset", "ssd"),
        *("--property", "disk=nvme", "-f", "json"),
    ).json
    assert changed["metadata"] == {"availability_zone": "east", "disk": "nvme"}

    assert rtagent("aggregate", "delete", "faster", "--dry-run").code == 6
    busy = rtagent("aggregate", "delete", "faster")
    assert busy.code == 6
    assert "still has hosts: remove cn1 from it first" in busy.err
    assert rtagent("aggregate", "remove", "host", added["uuid"], "cn1").code == 0
    assert rtagent("aggregate", "delete", "faster", "--dry-run").code == 0
    deleted = rtagent("aggregate", "delete", "faster")
    assert (deleted.code, deleted.out) == (0, "")
    assert rtagent("aggregate", "list", "-f", "json").json == []


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (("delete", "none"), 5, "there is no aggregate none"),
        (("remove", "host", "none", "cn1"), 5, "there is no aggregate none"),
        (("create", " "), 2, "name: must not be empty"),
        (("create", "x", "--zone", "a:b"), 2, "metadata.availability_zone: must not have a colon"),
        (("create", "x", "--zone", "a", "--property", "availability_zone=b"), 2, "a key twice"),
        (("set", "x"), 2, "changes nothing"),
        (("set", "x", "--property", "a=b", "--unset", "a"), 2, "--unset a: is set by another"),
    ],
)
def test_bad_input_names_what_is_wrong(rtagent, command, code, message):
    outcome = rtagent("aggregate", *command)
    assert (outcome.code, outcome.out) == (code, "")
    assert message in outcome.err


def test_explain_is_a_table_of_hosts_and_filters(rtagent):
    shown = rtagent("schedule", "explain", *PLAIN, "-f", "json")
    assert shown.code == 0, shown.err
    assert [row["rank"] for row in shown.json] == [1, 2, 3]
    assert {row["host"] for row in shown.json} == set(HOSTS)
    for row in shown.json:
        assert row["ComputeFilter"] == ["yes"]
        assert "RAMWeigher" in {each["weigher"] for each in row["weights"]}
    assert "RAMWeigher: 1 (1 * 1, of " in rtagent("schedule", "explain", *PLAIN).out


def test_a_decision_is_shown_by_the_uuid_of_its_server(rtagent, bus):
    instance = uid()
    reply = bus.call("select_destinations", spec(), [instance], alternates=True)
    [selections] = reply["selections"]
    bus.call("forget_claim", selections["selected"]["operation_id"])
    made = rtagent("schedule", "decision", instance, "-f", "json").json
    [choice] = made["choices"]
    assert choice["host"] == selections["selected"]["host"]
    assert choice["alternates"] == [other["host"] for other in selections["alternates"]]
    hosts = [contender["host"] for contender in choice["compared"]]
    assert hosts == [choice["host"], *choice["alternates"]]
    by_claim = rtagent("schedule", "decision", choice["operation_id"], "-f", "json").json
    assert by_claim == made
    table = rtagent("schedule", "decision", made["uuid"]).out
    assert f"{choice['host']} for {instance}" in table and choice["why"] in table
    assert "{" not in table and "None" not in table
    unknown = rtagent("schedule", "decision", uid())
    assert (unknown.code, unknown.out) == (5, "")
    assert "this scheduler has no decision" in unknown.err


def test_a_scheduler_without_any_flavor_says_where_flavors_come_from(rtagent):
    shown = rtagent("schedule", "capacity")
    assert (shown.code, shown.out) == (0, "")
    assert "no claim is live" in shown.err and "[capacity] flavors_file" in shown.err


def test_explain_says_with_numbers_why_no_host_fits(rtagent):
    shown = rtagent("schedule", "explain", "--vcpus", "9", "--memory", "512", "-f", "json")
    assert shown.code == 0, shown.err
    cells = [cell for row in shown.json for values in row.values() for cell in values or []]
    assert [row["rank"] for row in shown.json] == [None] * len(HOSTS)
    assert any("9" in str(cell) and "8" in str(cell) for cell in cells)


def test_explain_reads_a_file(rtagent, tmp_path):
    file = tmp_path / "spec.json"
    file.write_text(json.dumps(spec(ignore_hosts=["cn1"])))
    shown = rtagent("schedule", "explain", "--request", str(file), "-f", "json").json
    assert {row["host"] for row in shown if row["rank"]} == {"cn2", "cn3"}

    file.write_text(json.dumps(spec(ignore_hosts="cn1")))
    wrong = rtagent("schedule", "explain", "--request", str(file))
    assert wrong.code == 2
    assert "$.request_spec.ignore_hosts" in wrong.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--vcpus", "0", "--memory", "1"), "--vcpus"),
        (("--vcpus", "1"), "--memory"),
        ((*PLAIN, "--instance", "no-uuid"), "--instance"),
        ((*PLAIN, "--property", "a=1", "--property", "a=2"), "--property a: is given more than"),
        ((*PLAIN, "--request", "/nowhere"), "--request: cannot be combined with options"),
        (("--request", "/nowhere"), "/nowhere: cannot be read"),
    ],
)
def test_explain_names_the_wrong_option(rtagent, options, message):
    outcome = rtagent("schedule", "explain", *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
