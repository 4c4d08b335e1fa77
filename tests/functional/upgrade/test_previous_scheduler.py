"""A scheduler of the previous release, with agents of this one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rtagent.rpc.client import AgentAPI
from rtagent.scheduler.errors import NoValidHost
from tests.servers import RabbitMQ
from tests.servers.daemon import Daemon, SchedulerServer, wait_until
from tests.support.hosts import uid
from tests.support.previous_release import PreviousRelease
from tests.support.reporting_hosts import SchedulerBus
from tests.support.scheduler_rpc import spec


@pytest.fixture
def bus(rabbitmq: RabbitMQ) -> Iterator[SchedulerBus]:
    bus = SchedulerBus(rabbitmq.transport_url)
    bus.transport.conf.set_override("scheduler", "1.0", group="upgrade_levels")
    yield bus
    bus.close()


def test_it_does_not_select_a_host_that_drains(
    rabbitmq: RabbitMQ, bus: SchedulerBus, tmp_path: Path
):
    previous = PreviousRelease(tmp_path / "previous")
    broker = rabbitmq.transport_url
    agent = Daemon(
        tmp_path / "agent",
        broker,
        config={"DEFAULT": {"host": f"new-{uid()[-12:]}", "report_interval": 1}},
    )
    config = {"DEFAULT": {"report_interval": 1}}
    scheduler = SchedulerServer(tmp_path / "scheduler", broker, config=config)

    def refusal() -> str:
        """Return why the host is not selected, or ""."""
        try:
            bus.call("select_destinations", spec(), [uid()], claim=False)
        except NoValidHost as error:
            return str(error)
        return ""

    api = AgentAPI(bus.transport, agent.host, timeout=30)
    with agent.start(), scheduler.start(**previous.environment):
        agent.wait_ready()
        scheduler.wait_ready()
        wait_until(lambda: not refusal())
        api.drain_node(bus.context, reason="new disks")
        wait_until(lambda: "its service is disabled: new disks" in refusal())
        api.undrain_node(bus.context)
        wait_until(lambda: not refusal())
