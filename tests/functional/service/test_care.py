"""An operator empties a host for maintenance: agent and scheduler on one database."""

import threading
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from oslo_context.context import RequestContext
from sqlalchemy import create_engine, update

from rtagent.db.schema import compute_nodes
from rtagent.errors import NodeDraining
from rtagent.rpc.client import AgentAPI
from tests.functional.cli.shell import Run, run, serving
from tests.servers import PostgreSQL, RabbitMQ
from tests.servers.daemon import Daemon, SchedulerServer, wait_until

CONTEXT = RequestContext(overwrite=False)
SMALL = ("--vcpus", "1", "--memory", "256", "--root-gb", "1")
#: More vCPUs than a `Stream` can claim, however long a command takes meanwhile.
CONFIG: dict[str, dict[str, object]] = {
    "DEFAULT": {"report_interval": 1, "cpu_allocation_ratio": 1000},
    "scheduler": {"report_jitter": 0.1, "host_report_interval": 0.1},
}


@pytest.fixture(scope="module")
def database_url(postgresql_server: PostgreSQL) -> str:
    return str(postgresql_server.create_database())


@pytest.fixture(scope="module")
def agent(
    tmp_path_factory: pytest.TempPathFactory, rabbitmq_server: RabbitMQ, database_url: str
) -> Iterator[Daemon]:
    directory = tmp_path_factory.mktemp("agent")
    url = rabbitmq_server.transport_url
    daemon = Daemon(directory, url, database_url=database_url, config=CONFIG)
    assert run("--config-file", str(daemon.config_file), "db", "sync").code == 0
    with daemon:
        yield serving(daemon)


@pytest.fixture(scope="module")
def scheduler(
    tmp_path_factory: pytest.TempPathFactory,
    rabbitmq_server: RabbitMQ,
    database_url: str,
    agent: Daemon,
) -> Iterator[SchedulerServer]:
    url, directory = rabbitmq_server.transport_url, tmp_path_factory.mktemp("scheduler")
    with SchedulerServer(directory, url, database_url=database_url) as daemon:
        daemon.wait_ready()
        wait_until(lambda: [host["up"] for host in daemon.read("hosts")["hosts"]] == [True])
        yield daemon


@pytest.fixture
def rtagent(agent: Daemon) -> Run:
    return lambda *argv: run("--config-file", str(agent.config_file), *argv)


def shown(scheduler: SchedulerServer) -> dict[str, Any]:
    """The host as the scheduler sees it."""
    (host,) = scheduler.read("hosts")["hosts"]
    return dict(host)


def listed(scheduler: SchedulerServer) -> Any:
    """The state of the host in ``rtagent host list``."""
    (row,) = run("--config-file", str(scheduler.config_file), "host", "list", "-f", "json").json
    return row["state"]


def create(rtagent: Run) -> Any:
    return rtagent("claim", "create", "--instance", str(uuid4()), *SMALL, "-f", "json")


class Stream(threading.Thread):
    """Makes claims one after the other until it is stopped. :ivar made: the granted ones."""

    def __init__(self, transport: Any, host: str) -> None:
        super().__init__()
        self.api, self._ended = AgentAPI(transport, host, timeout=60), threading.Event()
        self.made: list[str] = []
        self.errors: list[str] = []

    def run(self) -> None:
        while not self._ended.is_set():
            flavor = {"vcpus": 1, "memory_mb": 1}
            try:
                made = self.api.instance_claim(CONTEXT, {"uuid": str(uuid4()), "flavor": flavor})
            except NodeDraining as error:
                self.errors.append(error.message)
            else:
                self.made.append(made["uuid"])

    def stop(self) -> None:
        self._ended.set()
        self.join()


def test_drain_under_a_stream_of_claims_keeps_all_and_adds_none(
    rtagent: Run, agent: Daemon, scheduler: SchedulerServer, transport: Any
):
    stream = Stream(transport, agent.host)
    stream.start()
    wait_until(lambda: len(stream.made) > 1)
    begin = ("node", "drain", "--reason", "new disks", "--deadline", "2h", "--long", "-f", "json")
    drained = rtagent(*begin)
    at_once = {row["claim"] for row in drained.json}
    wait_until(lambda: len(stream.errors) > 1)
    stream.stop()
    assert drained.code == 0, drained.err
    assert at_once == set(stream.made)
    assert "is being drained since" in drained.err and ": new disks; " in drained.err
    assert all("gets no new claims" in error and "new disks" in error for error in stream.errors)

    wait_until(lambda: shown(scheduler)["draining"])
    assert (shown(scheduler)["drain_reason"], listed(scheduler)) == ("new disks", "draining")
    refused = create(rtagent)
    assert refused.code == 6 and "rtagent node undrain ends that" in refused.err
    for uuid in stream.made:
        stream.api.release_claim(CONTEXT, uuid)
    agent.wait_logged("new disks; ")
    assert agent.metrics()["rtagent_draining"] == 1
    assert rtagent("node", "undrain").code == 0


def test_drain_outlasts_a_kill_of_the_agent_and_ends_with_undrain(
    rtagent: Run, agent: Daemon, scheduler: SchedulerServer
):
    assert rtagent("node", "drain", "--reason", "new disks").code == 0
    agent.kill()
    offline = rtagent("--offline", "node", "drain", "--status")
    assert "is being drained since" in offline.err and "new disks" in offline.err
    agent.start()
    serving(agent)
    assert create(rtagent).code == 6
    with pytest.raises(NodeDraining):
        agent.read("ready")

    undrained = rtagent("node", "undrain")
    assert (undrained.code, undrained.out) == (0, "")
    assert "is not being drained" in rtagent("node", "drain", "--status").err
    made = create(rtagent)
    assert made.code == 0, made.err
    assert rtagent("claim", "release", made.json["uuid"]).code == 0
    wait_until(lambda: listed(scheduler) == "up")


def test_status_takes_no_other_argument(rtagent: Run):
    outcome = rtagent("node", "drain", "--status", "--reason", "x")
    assert (outcome.code, outcome.out) == (2, "")
    assert "--status: changes nothing: leave out --reason and --deadline" in outcome.err


def service(rtagent: Run) -> dict[str, Any]:
    (row,) = rtagent("service", "list", "-f", "json").json
    return dict(row)


@pytest.mark.parametrize("more", [(), ("--offline",)], ids=["scheduler", "database"])
def test_forced_down_host_is_excluded_at_once_and_its_agent_says_so(
    rtagent: Run, agent: Daemon, scheduler: SchedulerServer, more: tuple[str, ...]
):
    assert rtagent(*more, "service", "force-down", agent.host).code == 0
    if not more:
        assert shown(scheduler)["forced_down"], "the scheduler has answered before"
    wait_until(lambda: "forced_down" in agent.read("health")["checks"])
    wait_until(lambda: agent.read("health")["checks"]["forced_down"][0]["status"] == "warn")
    wait_until(lambda: listed(scheduler) == "down")
    assert service(rtagent)["forced_down"] and service(rtagent)["state"] == "down"

    assert rtagent(*more, "service", "force-down", agent.host, "--off").code == 0
    wait_until(lambda: agent.read("health")["checks"]["forced_down"][0]["status"] == "pass")
    wait_until(lambda: listed(scheduler) == "up")


@pytest.mark.parametrize("more", [(), ("--offline",)], ids=["scheduler", "database"])
def test_unknown_host_is_not_forced_down(rtagent: Run, scheduler: SchedulerServer, more: Any):
    refused = rtagent(*more, "service", "force-down", "typo")
    assert refused.code == 5
    assert "the scheduler knows no host typo" in refused.err
    assert service(rtagent)["host"] == "agent1"


def test_failed_builds_disable_the_service_and_a_good_one_does_not_enable_it(
    rtagent: Run, agent: Daemon, scheduler: SchedulerServer, transport: Any
):
    api = AgentAPI(transport, agent.host, timeout=60)

    def fail(number: int) -> None:
        for _ in range(number):
            api.build_failed(CONTEXT)

    fail(9)
    api.build_succeeded(CONTEXT)
    fail(9)
    assert not service(rtagent)["disabled"]
    fail(1)
    wait_until(lambda: service(rtagent)["disabled"])
    assert service(rtagent)["disabled_reason"] == "Auto-disabled due to 10 build failures"
    wait_until(lambda: listed(scheduler) == "disabled")
    api.build_succeeded(CONTEXT)
    assert service(rtagent)["disabled"]

    assert rtagent("service", "enable").code == 0
    fail(9)
    assert not service(rtagent)["disabled"]
    fail(1)
    wait_until(lambda: service(rtagent)["disabled"])
    assert rtagent("service", "enable").code == 0


@pytest.fixture
def remote(agent: Daemon, tmp_path: Any) -> Run:
    """``rtagent`` on a controller: it has neither the socket nor the state of the agent."""
    config = tmp_path / "rtagent.conf"
    lines = agent.config_file.read_text().splitlines()
    kept = (line for line in lines if line.startswith(("[", "transport_url")))
    config.write_text("\n".join((*kept, "[DEFAULT]", f"state_path = {tmp_path}")))
    return lambda *argv: run("--config-file", str(config), "--host", agent.host, *argv)


def test_another_host_is_read_and_changed_over_rpc(remote: Run, rtagent: Run, agent: Daemon):
    made = create(remote)
    assert made.code == 0, made.err
    uuid = made.json["uuid"]
    for command in (
        *(("node", "show"), ("claim", "list"), ("claim", "show", uuid), ("numa", "show")),
        *(("pci", "list"), ("orphan", "list"), ("drift", "list"), ("resource", "list")),
        *(("migration", "list"), ("claim", "history", uuid)),
    ):
        here, there = rtagent(*command, "-f", "json"), remote(*command, "-f", "json")
        assert (there.code, there.json) == (0, here.json), there.err
    assert uuid in remote("events").out
    assert remote("node", "drain", "--reason", "x").code == 0
    assert "is being drained" in rtagent("node", "drain", "--status").err
    assert remote("node", "undrain").code == 0
    assert remote("claim", "release", uuid).code == 0

    assert remote("claim", "history", uuid).code == 0
    for command in ("claim", "show", uuid), ("claim", "history", agent.host):
        unknown = remote(*command)
        assert unknown.code == 5 and "no claim" in unknown.err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("--offline", "node", "show"), "--host: asks an agent over RPC, and --offline does not"),
        (("--socket", "/x", "node", "show"), "--host: asks an agent over RPC, and --socket"),
        (("service", "list"), "--host: the database is read by this machine"),
        (("host", "list"), "--host: names an agent, and the scheduler answers this"),
    ],
)
def test_host_with_what_does_not_ask_an_agent_is_refused(remote: Run, command: Any, message: str):
    refused = remote(*command)
    assert refused.code == 2
    assert message in refused.err


def restart(agent: Daemon) -> None:
    agent.kill()
    agent.start()
    serving(agent)


def test_reboot_is_told_from_a_restart(rtagent: Run, agent: Daemon, database_url: str):
    agent.configure({"libvirt": {"guests_start_timeout": 3600}})
    uuid = create(rtagent).json["uuid"]
    assert rtagent("claim", "activate", uuid).code == 0  # and its guest does not start
    agent.kill()
    engine = create_engine(database_url)
    with engine.begin() as connection:
        connection.execute(update(compute_nodes).values(writer_boot_id="another"))
    engine.dispose()
    restart(agent)
    document = agent.read("claims")
    assert (document["flags"], document["claims"][0]["suspect"]) == ({uuid: "reboot"}, None)
    (shown,) = rtagent("claim", "list", "--long", "-f", "json").json
    assert shown["flag"] == "reboot"
    check = agent.read("health")["checks"]["guests"][0]
    assert (
        check["status"] == "warn" and "not back after the reboot of the host: 1" in check["output"]
    )

    agent.configure({"libvirt": {"guests_start_timeout": 1}})
    restart(agent)

    def late() -> bool:
        document = agent.read("claims")
        return document["flags"] == {} and bool(document["claims"][0]["suspect"])

    wait_until(late)
    assert rtagent("claim", "release", uuid).code == 0
