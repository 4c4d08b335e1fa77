"""rtagent schedule capacity and advise, and the metrics of the room of the fleet."""

import io
import json

import pytest

from rtagent.cmd.rtagent import Shell
from tests.functional.cli.shell import run
from tests.servers.daemon import SchedulerServer

NEEDED = {"Disk": 0, "Properties": {}}
FLAVORS = [
    {"Name": "small", "VCPUs": 1, "RAM": 4096, **NEEDED},
    {"Name": "huge", "VCPUs": 9, "RAM": 512, **NEEDED},
]


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory, rabbitmq_server):
    directory = tmp_path_factory.mktemp("scheduler")
    file = directory / "flavors.json"
    file.write_text(json.dumps(FLAVORS))
    config = {
        "DEFAULT": {"service_down_time": 3600},
        "scheduler": {"start_grace": 5},
        "capacity": {"flavors_file": file},
        "oslo_messaging_rabbit": {"rabbit_interval_max": 1},
    }
    with SchedulerServer(directory, rabbitmq_server.transport_url, config=config) as made:
        yield made.wait_ready()


@pytest.fixture
def rtagent(scheduler, bus):
    return lambda *argv: run("--config-file", str(scheduler.config_file), "schedule", *argv)


def test_the_room_of_each_flavor_is_listed_with_what_is_scarce(rtagent):
    huge, small = rtagent("capacity", "-f", "json").json
    assert (small["flavor"], small["room"]) == ("small", 12)
    assert small["hosts"] == {"hosts_with_room": 3, "hosts": 3}
    assert small["largest"]["largest"] == 4
    assert (huge["room"], huge["scarce"]["never"]) == (0, "needs 9 vCPUs (VCPU), the host has 8")
    table = rtagent("capacity").out
    assert "3 hosts: MEMORY_MB: 4096 MB requested at " in table
    assert "never fits: needs 9 vCPUs (VCPU), the host has 8" in table


def test_a_flavor_by_hosts_and_by_zones(rtagent):
    rows = rtagent("capacity", "--flavor", "small", "--by", "host", "-f", "json").json
    assert [(row["host"], row["room"]) for row in rows] == [("cn1", 4), ("cn2", 4), ("cn3", 4)]
    [zone] = rtagent("capacity", "--flavor", "small", "--by", "zone", "-f", "json").json
    assert (zone["zone"], zone["room"]) == ("nova", 12)


def test_any_request_is_counted_as_it_would_be_explained(rtagent):
    asked = ("--vcpus", "2", "--memory", "512", "--ignore-host", "cn1")
    [row] = rtagent("capacity", *asked, "-f", "json").json
    assert (row["room"], row["refused"][0]["hosts"], row["refused"][0]["fits"]) == (8, 1, 4)
    shown = rtagent("capacity", *asked, "--by", "host").out
    assert "1 host, 4 more: ignore_hosts: the request ignores this host" in shown


@pytest.mark.parametrize("command", ["capacity", "advise"])
@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--flavor", "none"), 5, "no flavor none is in the catalogue: rtagent schedule capacity"),
        (("--flavor", "small", "--vcpus", "1"), 2, "--flavor: names a flavor"),
        (("--vcpus", "1"), 2, "--memory"),
        (("--vcpus", "1", "--memory", "64", "--purpose", "resize"), 2, "must be build"),
    ],
)
def test_bad_input_names_what_is_wrong(rtagent, command, options, code, message):
    outcome = rtagent(command, *options)
    assert (outcome.code, outcome.out) == (code, "")
    assert message in outcome.err


def test_advice_says_whether_there_is_room_and_what_is_scarce(rtagent):
    def shown(*options):
        return rtagent("advise", *options, "-f", "json").json

    room = shown("--flavor", "small", "--count", "12")
    assert (room["answer"], room["room"]) == ("there is room for 12 servers already", 12)
    none = shown("--vcpus", "1", "--memory", "4096", "--count", "13")
    assert none["answer"] == "no plan of up to 3 moves was found"
    assert (none["room"], none["moves"]) == (12, [])
    assert {each["host"] for each in none["scarce"]} == {"cn1", "cn2", "cn3"}
    assert shown("--flavor", "huge")["answer"] == (
        "never fits: needs 9 vCPUs (VCPU), the host has 8"
    )
    assert (
        "cn1: MEMORY_MB: 4096 MB requested"
        in rtagent("advise", "--flavor", "small", "--count", "13").out
    )


def test_advice_is_for_one_server_at_least(rtagent):
    outcome = rtagent("advise", "--flavor", "small", "--count", "0")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--count: must be at least 1" in outcome.err


class Interrupted(io.StringIO):
    """The terminal of a user who interrupts the command after the second look."""

    looks = 0

    def flush(self):
        self.looks += bool(self.getvalue())
        if self.looks == 2:
            raise KeyboardInterrupt


def test_watched_capacity_is_shown_again_until_the_user_interrupts(scheduler, bus):
    out, err = Interrupted(), io.StringIO()
    argv = ["--config-file", str(scheduler.config_file), "schedule", "capacity", "--watch"]
    assert Shell(out, err).run(argv) == 0
    assert out.getvalue().count("| small ") == 2
    assert err.getvalue() == ""


def test_metrics_have_the_room_and_the_hosts_with_room(scheduler, bus):
    small, huge = '{flavor="small"}', '{flavor="huge"}'
    shown = scheduler.metrics()
    assert shown[f"rtagent_scheduler_room{small}"] == 12
    assert shown[f"rtagent_scheduler_room_hosts{small}"] == 3
    assert shown[f"rtagent_scheduler_room_hosts{huge}"] == 0
