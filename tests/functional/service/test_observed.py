"""What operators see of a running daemon: monitors, probes, metrics, the state report."""

import json
import re
import signal
import sqlite3
import uuid
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest
from oslo_context.context import RequestContext

from rtagent import __version__
from rtagent.rpc.client import AgentAPI
from tests.functional.service.monitoring_files import metrics_named
from tests.servers.daemon import ROOT, Daemon, wait_until

CONTEXT = RequestContext(user_id="tester", overwrite=False)
#: Each is the password of one option.
SECRETS = ("placement-secret-1", "auth-url-secret-2", "proxy-secret-3", "conductor-secret-4")
#: Stands in for the package systemd-python, whose journal there is one of on a machine.
JOURNAL = """
import json

def send(message, **fields):
    with open({!r}, "a") as file:
        print(json.dumps({{"MESSAGE": message, **fields}}), file=file)
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory, rabbitmq_server):
    rabbitmq_server.start()
    directory = tmp_path_factory.mktemp("observed")
    (directory / "systemd").mkdir()
    (directory / "systemd" / "__init__.py").touch()
    (directory / "systemd" / "journal.py").write_text(JOURNAL.format(str(directory / "journal")))
    path = f"{directory}:{ROOT}"
    made = Daemon(directory, rabbitmq_server.transport_url, environment={"PYTHONPATH": path})
    made.configure(
        {
            "DEFAULT": {
                "host": f"agent-{uuid.uuid4()}",
                "compute_monitors": "cpu.virt_driver",
                "report_interval": 1,
                "use_json": True,
                "use_journal": True,
                "use_stderr": True,
                "debug": True,
            },
            "placement": {
                "auth_type": "password",
                "auth_url": f"http://admin:{SECRETS[1]}@127.0.0.1:1/identity",
                "username": "rtagent",
                "password": SECRETS[0],
                "user_domain_name": "Default",
                "project_domain_name": "Default",
                "project_name": "service",
                "endpoint_override": f"http://u:{SECRETS[2]}@127.0.0.1:1/placement",
            },
            "conductor": {"connection": f"mysql+pymysql://c:{SECRETS[3]}@127.0.0.1:1/c"},
            "oslo_reports": {"log_dir": directory},
        }
    )
    made.start().wait_ready()
    yield made
    made.close()


@pytest.fixture(scope="module")
def claim(daemon, transport):
    """A claim that has a lease."""
    agent = AgentAPI(transport, daemon.host, timeout=30)
    flavor = {"vcpus": 1, "memory_mb": 16, "root_gb": 0}
    return agent.instance_claim(CONTEXT, {"uuid": str(uuid.uuid4()), "flavor": flavor})


def recorded_metrics(daemon: Daemon) -> list:
    with closing(sqlite3.connect(daemon.directory / "rtagent.sqlite")) as connection:
        ((text,),) = connection.execute("SELECT metrics FROM compute_nodes")
    return json.loads(text or "[]")


def test_monitors_are_in_the_record_the_api_and_the_metrics(daemon):
    wait_until(lambda: len(recorded_metrics(daemon)) > 0)
    names = {each["name"] for each in recorded_metrics(daemon)}
    assert {"cpu.percent", "cpu.frequency", "cpu.idle.time"} <= names
    (node,) = daemon.read("nodes")["nodes"]
    assert {each["name"] for each in node["metrics"]} == names
    shown = daemon.metrics()
    assert 0.0 <= shown['rtagent_host_metric{metric="cpu.percent"}'] <= 1.0


def test_metrics_show_queues_leases_and_the_build(daemon, claim):
    shown = daemon.metrics()
    assert shown["rtagent_decisions_waiting"] == 0
    assert shown['rtagent_lease_age_seconds{state="building"}'] > 0
    assert shown["rtagent_leases_lapsed"] == 0
    assert shown['rtagent_sql_errors_total{kind="deadlock"}'] == 0
    assert shown['rtagent_rpc_seconds_count{method="instance_claim"}'] == 1
    (build,) = (name for name in shown if name.startswith("rtagent_build_info"))
    assert f'version="{__version__}"' in build
    assert shown['rtagent_cell_pages{cell="0",size_kb="4"}'] > 0


def test_metrics_of_the_alerts_and_the_dashboard_exist(daemon):
    named = {name for name in metrics_named() if "_scheduler_" not in name}
    assert named - daemon.metric_names() == set()


def test_lines_of_the_log_are_json_and_have_the_name_of_their_module(daemon):
    daemon.wait_logged("Final resource view")
    lines = daemon.log.read_text().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("{"))
    records = [json.loads(line) for line in lines[first:]]
    view, *_ = (
        each for each in records if each["message"].startswith("Final resource view: name=")
    )
    assert (view["name"], view["levelname"]) == ("rtagent.audit", "INFO")
    for name in {each["name"] for each in records if each["name"].startswith("rtagent")}:
        assert find_spec(name), name


def test_journal_gets_fields(daemon):
    lines = (daemon.directory / "journal").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    view, *_ = (each for each in records if "Final resource view: name=" in each["MESSAGE"])
    assert (view["LOGGER_NAME"], view["LOGGER_LEVEL"]) == ("rtagent.audit", "INFO")
    assert view["PRIORITY"] == 6


def reports(daemon: Daemon) -> list[Path]:
    return sorted(daemon.directory.glob("rtagentd_gurumeditation_*"))


def test_state_report_has_every_section_and_no_secret(daemon, claim):
    logged = "the state report is in"
    before = daemon.count_logged(logged)
    daemon.signal(signal.SIGUSR2)
    wait_until(lambda: daemon.count_logged(logged) > before)
    *_, file = reports(daemon)
    text = file.read_text()
    titles = re.findall(r"^====+\n====\s+(.*?)\s+====$", text, re.MULTILINE)
    assert {
        *("Package", "Health", "Status", "Claims", "Lock and queues", "Outboxes", "Last audits"),
        *("Threads", "Processes", "Configuration"),
    } <= set(titles)
    assert f"{claim['uuid']} of {claim['owner_id']}: build, building" in text
    assert "audit (start)" in text
    assert "rpc-probe: late by" in text
    threads = set(re.findall(r"^(\S+) \(\d+\)$", text, re.MULTILINE))
    assert threads >= {"heartbeat", "recovery", "audit", "casts", "turns", "host-lock"}
    assert threads.isdisjoint({"rpc-probe", "notifications", "events", "power", "monitors"})
    assert "cannot be shown" not in text
    assert re.search(r"compute_monitors = .*\n\s+cpu.virt_driver", text)
    for secret in SECRETS:
        assert secret not in text
    assert "://" in text
    assert not re.search(r"://[^\s/*]+@", text), "a URL with its user"
    assert file.stat().st_mode & 0o007 == 0, "other users cannot read it"
    assert daemon.read("live")["live"]
