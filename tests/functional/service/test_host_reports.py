"""The reports of a daemon to the schedulers, over a real message broker."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
import oslo_messaging
import pytest
from oslo_context.context import RequestContext

from rtagent.allocation import requirements
from rtagent.allocation.allocate import Allocated, allocate
from rtagent.model.host_report import HostReport, InstanceInfo
from rtagent.rpc import AGENT, SCHEDULER
from rtagent.rpc.client import AgentAPI
from rtagent.scheduler.replica import replica_of
from rtagent.scheduler.report_documents import instances_from, report_from
from tests.servers import RabbitMQ
from tests.servers.daemon import Daemon, wait_until
from tests.support.hosts import request, uid
from tests.support.workload.deployment import open_transport

CONTEXT = RequestContext(overwrite=False)
#: Short times, so that the test need not wait.
TIMES: dict[str, dict[str, object]] = {
    "DEFAULT": {"report_interval": 1},
    "scheduler": {"instance_sync_interval": 2, "report_jitter": 0.1, "host_report_interval": 0.2},
}
#: Seconds; a thread that hangs exceeds them.
BOUND = 60


class Scheduler:
    """What a scheduler receives. :ivar messages: (method, arguments), in order."""

    target = oslo_messaging.Target(version="1.3")

    def __init__(self, url: str) -> None:
        self._transport = open_transport(url)
        self._lock = threading.Lock()
        self.messages: list[tuple[str, dict[str, Any]]] = []
        self._server = oslo_messaging.get_rpc_server(
            self._transport,
            oslo_messaging.Target(topic=SCHEDULER, server=f"scheduler-{uid()}"),
            [self],
            executor="threading",
            access_policy=oslo_messaging.ExplicitRPCAccessPolicy,
        )
        self._server.start()

    def ask(self, host: str | None, **arguments: bool) -> None:
        target = oslo_messaging.Target(topic=AGENT, version="1.3", server=host, fanout=host is None)
        client = oslo_messaging.get_rpc_client(self._transport, target)
        client.cast({}, "report_host_state", **arguments)

    def stop(self) -> None:
        self._server.stop()
        self._server.wait()
        self._transport.cleanup()

    @oslo_messaging.expose
    def update_host_state(self, context: object, **arguments: Any) -> None:
        self._take("update_host_state", arguments)

    @oslo_messaging.expose
    def update_instance_info(self, context: object, **arguments: Any) -> None:
        self._take("update_instance_info", arguments)

    @oslo_messaging.expose
    def delete_instance_info(self, context: object, **arguments: Any) -> None:
        self._take("delete_instance_info", arguments)

    @oslo_messaging.expose
    def sync_instance_info(self, context: object, **arguments: Any) -> None:
        self._take("sync_instance_info", arguments)

    def _take(self, method: str, arguments: dict[str, Any]) -> None:
        with self._lock:
            self.messages.append((method, arguments))

    def clear(self) -> None:
        with self._lock:
            self.messages.clear()

    def of(self, method: str) -> list[dict[str, Any]]:
        with self._lock:
            return [arguments for name, arguments in self.messages if name == method]

    @property
    def reports(self) -> list[HostReport]:
        return [report_from(arguments["report"]) for arguments in self.of("update_host_state")]

    def named(self, method: str) -> dict[str, InstanceInfo]:
        """The instances in the messages of a method."""
        texts = [arguments.get("instances") for arguments in self.of(method)]
        infos = (info for text in texts if text for info in instances_from(method, text))
        return {info.uuid: info for info in infos}


@pytest.fixture
def scheduler(rabbitmq: RabbitMQ) -> Iterator[Callable[[], Scheduler]]:
    """Starts a scheduler's server."""
    made: list[Scheduler] = []

    def start() -> Scheduler:
        made.append(Scheduler(rabbitmq.transport_url))
        return made[-1]

    yield start
    for each in made:
        each.stop()


def test_daemon_reports_to_schedulers(
    rabbitmq: RabbitMQ, scheduler: Callable[[], Scheduler], tmp_path, agent_api
):
    host = f"reporting-{uid()}"
    config = {**TIMES, "DEFAULT": {**TIMES["DEFAULT"], "host": host}}
    first = scheduler()
    with Daemon(tmp_path, rabbitmq.transport_url, config=config) as daemon:
        daemon.wait_ready()
        api = agent_api(host)

        # The first report is complete, and the replica grants what the agent grants.
        wait_until(lambda: any(report.up for report in first.reports))
        described = next(each for each in first.reports if each.description is not None)
        node = described.node
        assert node.host == host
        asked = request(vcpus=1, memory_mb=128)
        replica = replica_of(described, described.description)
        required = requirements.from_request(asked, replica.policy)
        assert isinstance(allocate(replica, asked.instance.uuid, required), Allocated)

        # A claim is reported with its instance, before the next heartbeat ends.
        first.clear()
        claim = api.instance_claim(CONTEXT, asked.instance)
        wait_until(lambda: any(claim["uuid"] in report.claims for report in first.reports))
        # Threads take the messages, so that their order may change.
        wait_until(lambda: asked.instance.uuid in first.named("update_instance_info"))
        infos = first.named("update_instance_info")
        assert [each.uuid for each in infos[asked.instance.uuid].claims] == [claim["uuid"]]
        api.abort_instance_claim(CONTEXT, claim["uuid"])
        gone = {"instance_uuid": asked.instance.uuid}
        wait_until(lambda: any(gone.items() <= m.items() for m in first.of("delete_instance_info")))

        # Heartbeats and digests come without any change.
        first.clear()
        wait_until(lambda: any(n >= 3 for n in Counter(r.revision for r in first.reports).values()))
        wait_until(lambda: bool(first.of("sync_instance_info")))

        # A scheduler that starts asks all agents; one with a gap asks one.
        second = scheduler()
        second.ask(None, description=True, instances=True)
        wait_until(lambda: any(report.description is not None for report in second.reports))
        wait_until(lambda: any(each.get("instances") for each in second.of("sync_instance_info")))
        second.clear()
        second.ask(host, description=True, instances=False)
        wait_until(lambda: any(report.description is not None for report in second.reports))

        check_outages(rabbitmq, daemon, api, second)


def check_outages(rabbitmq: RabbitMQ, daemon: Daemon, api: AgentAPI, scheduler: Scheduler) -> None:
    """The broker hangs; then the agent stops."""
    # A broker that hangs does not hold up the thread.
    before = counted(daemon, "dropped")
    rabbitmq.freeze()
    try:
        wait_until(lambda: counted(daemon, "dropped") > before)
        assert lateness(daemon, "rpc-probe") < BOUND
        assert lateness(daemon, "host-lock") < BOUND
        assert daemon.read("live")["live"]
    finally:
        rabbitmq.thaw()
    before = counted(daemon, "sent")
    wait_until(lambda: counted(daemon, "sent") > before)
    claim = api.instance_claim(CONTEXT, request().instance)
    wait_until(lambda: any(claim["uuid"] in report.claims for report in scheduler.reports))

    # An agent that stops says so.
    assert daemon.terminate() == 0
    wait_until(lambda: ("the agent stops", False) in {(r.why_not, r.up) for r in scheduler.reports})


def counted(daemon: Daemon, outcome: str) -> float:
    """The number of reports with an outcome."""
    return daemon.metrics().get(f'rtagent_host_reports_total{{outcome="{outcome}"}}', 0.0)


def lateness(daemon: Daemon, thread: str) -> float:
    """How long a thread that the watchdog checks has made no progress."""
    return daemon.metrics()[f'rtagent_thread_late_seconds{{thread="{thread}"}}']


@pytest.fixture
def agent_api(transport: oslo_messaging.RPCTransport) -> Callable[[str], AgentAPI]:
    """Makes clients of agents."""
    return lambda host: AgentAPI(transport, host, timeout=60)
