"""rtagent-scheduler: starts, takes reports, selects, reloads, stops."""

import base64
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from rtagent.cmd.daemon import EX_CONFIG
from rtagent.errors import InvalidRequest
from rtagent.rpc.envelope import MAX_REPORT
from rtagent.scheduler.errors import HostNotFound, NoValidHost
from tests.functional.scheduler.conftest import HOSTS
from tests.functional.service.monitoring_files import metrics_named
from tests.servers.daemon import SchedulerServer, wait_until
from tests.support.hosts import uid
from tests.support.scheduler_rpc import spec


def hosts(scheduler):
    return {each["host"]: each for each in scheduler.read("hosts")["hosts"]}


def steady(scheduler):
    """The hosts without what time changes."""
    shown = hosts(scheduler)
    return {name: {**host, "age": 0} for name, host in shown.items()}


def set_aside(scheduler):
    """How many messages were refused."""
    wrong = ("InvalidRequest", "NoSuchMethod")
    metrics = scheduler.metrics()
    return sum(metrics.get(f'rtagent_rpc_total{{outcome="{each}"}}', 0) for each in wrong)


def test_scheduler_is_ready_and_healthy(scheduler, bus):
    assert scheduler.read("ready")["ready"] is True
    health = scheduler.read("health")
    assert (health["status"], health["serviceId"]) == ("pass", "rtagent-scheduler")
    assert {"hosts", "aggregates", "rpc"} <= set(health["checks"])


def test_metrics_of_the_alerts_and_the_dashboard_exist(scheduler, bus):
    named = {name for name in metrics_named() if "_scheduler_" in name or "_selection" in name}
    assert named
    assert named - scheduler.metric_names() == set()
    assert scheduler.read("live")["live"]
    (build,) = (name for name in scheduler.metrics() if name.startswith("rtagent_build_info"))
    assert 'service="rtagent-scheduler"' in build


def test_state_report_of_a_scheduler(scheduler, bus):
    scheduler.signal(signal.SIGUSR2)
    for title in (
        *("Guru Meditation", "Status", "Calls in flight", "Threads of work", "Configuration"),
    ):
        scheduler.wait_logged(f"{title}  ")
    assert "cannot be shown" not in scheduler.log.read_text()


def test_hosts_are_as_they_were_reported(scheduler, bus):
    shown = hosts(scheduler)
    assert set(shown) == set(HOSTS)
    assert (shown["cn1"]["vcpus_total"], shown["cn1"]["alive"]) == (8, True)
    one = scheduler.read("hosts", "cn2")["host"]
    assert one == scheduler.read("hosts", one["uuid"])["host"] | {"age": one["age"]}
    assert one["instances"] == []
    with pytest.raises(HostNotFound, match="knows no host cn9"):
        scheduler.read("hosts", "cn9")


def test_selection_counts_on_its_host_until_it_is_forgotten(scheduler, bus):
    instance = uid()
    reply = bus.call("select_destinations", spec(), [instance], alternates=True)
    (only,) = reply["selections"]
    selected = only["selected"]
    assert only["instance_uuid"] == instance
    assert {selected["host"], *(each["host"] for each in only["alternates"])} == set(HOSTS)
    assert hosts(scheduler)[selected["host"]]["vcpus_used"] == 1

    bus.call("forget_claim", selected["operation_id"])
    assert hosts(scheduler)[selected["host"]]["vcpus_used"] == 0


def test_refusals_have_their_numbers_and_decisions_are_kept_with_them(scheduler, bus):
    instance = uid()
    bus.call("select_destinations", spec(), [instance], claim=False)
    with pytest.raises(NoValidHost) as refused:
        bus.call("select_destinations", spec(flavor={"vcpus": 99, "memory_mb": 1}), [uid()])
    assert refused.value.kwargs["hosts"] == len(HOSTS)
    assert sum(refused.value.kwargs["refused"].values()) == len(HOSTS)
    failed, made, *_ = scheduler.read("decisions")["decisions"]
    assert made["choices"][0]["instance_uuid"] == instance
    assert (made["hosts"], made["error"]) == (len(HOSTS), None)
    assert failed["choices"] == []
    assert "vCPUs" in failed["error"]
    assert sum(failed["refused"].values()) == len(HOSTS)


def test_bad_request_names_the_path_and_the_daemon_stays_up(scheduler, bus):
    with pytest.raises(InvalidRequest) as refused:
        bus.call("select_destinations", spec(purpose="many"), [uid()])
    (error,) = refused.value.kwargs["errors"]
    assert error["path"] == "$.request_spec.purpose"
    assert bus.call("ping")["hosts"] == len(HOSTS)


@pytest.mark.parametrize(
    ("method", "document"),
    [
        ("update_host_state", {"report": {"node": "cn1"}}),
        ("update_host_state", {"report": 7}),
        ("update_host_state", {"report": {"node": "x" * (MAX_REPORT // 2)}}),
        ("update_host_state", {}),
        ("update_instance_info", {"host": "cn1", "instances": "not packed"}),
        ("sync_instance_info", {"host": "cn1", "revision": -1}),
        ("delete_instance_info", {"instance_uuid": "cn1"}),
        ("no_such_method", {}),
    ],
)
def test_malformed_cast_is_set_aside_and_the_view_stays(scheduler, bus, method, document):
    before, metrics = steady(scheduler), set_aside(scheduler)
    bus.cast(method, **document)
    wait_until(lambda: set_aside(scheduler) > metrics)
    assert steady(scheduler) == before
    assert scheduler.running


def test_a_host_whose_messages_unpack_to_too_much_is_named(scheduler, bus):
    bomb = base64.b64encode(zlib.compress(b"[" + b"[]," * 11_000_000 + b"[]]")).decode()
    status, node = Path(f"/proc/{scheduler.pid}/status"), uid()
    for number in range(1, 8):
        arguments = {"epoch": 1, "revision": number, "digest": "d", "instances": bomb}
        bus.cast("sync_instance_info", host="bomber", node_uuid=node, **arguments)
    wait_until(lambda: "set aside: bomber (invalid request" in str(scheduler.read("health")))
    assert bus.call("ping")["hosts"] == len(HOSTS)
    peak = next(line.split()[1] for line in status.read_text().splitlines() if "VmHWM" in line)
    assert int(peak) < 500_000  # kB; untyped, each of them took 600 MB


def test_good_reload_comes_into_force_and_a_bad_one_does_not(scheduler, bus):
    def reload(logged):
        before = scheduler.count_logged(logged)
        scheduler.reload()
        wait_until(lambda: scheduler.count_logged(logged) > before)

    scheduler.configure({"filter_scheduler": {"enabled_filters": "ComputeFilter,NoSuchFilter"}})
    reload("the old configuration stays in force: [filter_scheduler]")
    assert bus.call("select_destinations", spec(), [uid()], claim=False)["selections"]

    scheduler.configure(
        {
            "filter_scheduler": {
                "enabled_filters": "ComputeFilter,IsolatedHostsFilter",
                "isolated_hosts": ",".join(HOSTS),
            }
        }
    )
    reload("the configuration was reloaded")
    with pytest.raises(NoValidHost) as refused:
        bus.call("select_destinations", spec(), [uid()])
    assert refused.value.kwargs["refused"] == {"IsolatedHostsFilter": len(HOSTS)}

    scheduler.configure({"filter_scheduler": {"isolated_hosts": ""}})
    reload("the configuration was reloaded")
    assert bus.call("select_destinations", spec(), [uid()], claim=False)["selections"]


def test_second_scheduler_in_the_same_directory_is_refused(scheduler, rabbitmq):
    command = [sys.executable, "-m", "rtagent.cmd.rtagent_scheduler"]
    second = subprocess.run(
        [*command, "--config-file", str(scheduler.config_file)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert second.returncode == EX_CONFIG
    assert "another rtagent-scheduler runs. Stop it, or give this one" in second.stdout


def test_aggregates_survive_a_kill_and_the_stop_is_in_time(scheduler, bus):
    name = f"fast-{uid()}"
    bus.call("create_aggregate", uid(), name, {"availability_zone": "east"})
    bus.call("add_host_to_aggregate", name, "cn1")
    assert hosts(scheduler)["cn1"]["availability_zone"] == "east"
    scheduler.kill()
    scheduler.start().wait_ready()

    def known() -> bool:
        bus.report("cn1")
        return "cn1" in hosts(scheduler)

    wait_until(known)
    assert name in hosts(scheduler)["cn1"]["aggregates"]
    assert scheduler.terminate() == 0
    scheduler.start().wait_ready()


def test_scheduler_with_an_unknown_filter_does_not_start(tmp_path):
    config = {"filter_scheduler": {"enabled_filters": "NoSuchFilter"}}
    with SchedulerServer(tmp_path, "fake://", config=config) as made:
        assert made.wait() == EX_CONFIG
        assert "[filter_scheduler] enabled_filters" in made.last_lines()
        assert "NoSuchFilter" in made.last_lines()


def test_scheduler_without_a_broker_is_ready_and_shows_it(tmp_path):
    nowhere = "rabbit://guest:guest@127.0.0.1:1/"
    config = {"scheduler": {"start_grace": 0}}
    with SchedulerServer(tmp_path, nowhere, config=config) as made:
        made.wait_ready()
        assert made.read("hosts") == {"hosts": [], "complete": False}
        wait_until(lambda: made.read("health")["checks"]["rpc"][0]["status"] != "pass")
        made.kill()
