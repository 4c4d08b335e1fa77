"""Everything works, and nothing else is allowed, at a broker with the shipped configuration."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.rpc.client import AgentAPI, SchedulerAPI
from tests.functional.broker.conftest import HOSTS
from tests.functional.cli.shell import run
from tests.servers.daemon import Daemon, SchedulerServer, wait_until
from tests.servers.guarded_rabbitmq import GuardedRabbitMQ
from tests.support.hosts import uid
from tests.support.scheduler_rpc import spec

CONTEXT = RequestContext(user_id="alice", overwrite=False)


def claimed(transport: oslo_messaging.RPCTransport, timeout: float = 60) -> str:
    """Select the host of a new instance, claim there, and return the claim's uuid."""
    schedulers = SchedulerAPI(transport, timeout=timeout, attempts=10)
    instance = {"uuid": uid(), "flavor": spec()["flavor"]}
    reply = schedulers.select_destinations(CONTEXT, spec(), [instance["uuid"]])
    selected = reply["selections"][0]["selected"]
    api = AgentAPI(transport, selected["host"], timeout=timeout, attempts=10)
    claim = api.instance_claim(CONTEXT, instance, operation_id=selected["operation_id"])
    return str(claim["uuid"])


def counted(scheduler: SchedulerServer) -> int:
    """The CPUs that the scheduler sees in use."""
    return int(scheduler.read("hosts", HOSTS[0])["host"]["vcpus_used"])


def test_selection_claim_report_and_event(
    broker: GuardedRabbitMQ,
    agent: Daemon,
    scheduler: SchedulerServer,
    conductor: oslo_messaging.RPCTransport,
    operator: Path,
):
    uuid = claimed(conductor)
    wait_until(lambda: scheduler.read("hosts", HOSTS[0])["host"]["instances"] != [])
    wait_until(lambda: counted(scheduler) == 1)
    with broker.connection("operator") as connection:
        channel, found = connection.channel(), list[bytes]()

        def arrived() -> bool:
            message = channel.basic_get("notifications.info", no_ack=True)
            found.extend([] if message is None else [message.body])
            return any(uuid in str(each) for each in found)

        wait_until(arrived)
    shown = run("--config-file", str(operator), "--host", HOSTS[0], "claim", "list", "-f", "json")
    assert shown.code == 0, shown.err
    assert [each["uuid"] for each in shown.json] == [uuid]
    released = run("--config-file", str(operator), "--host", HOSTS[0], "claim", "release", uuid)
    assert released.code == 0, released.err
    wait_until(lambda: counted(scheduler) == 0)
    for daemon in (agent, scheduler):
        wait_until(partial(healthy, daemon))
    assert "ACCESS_REFUSED" not in broker.log.read_text()


def test_everything_is_back_after_a_restart_of_the_broker(
    broker: GuardedRabbitMQ,
    agent: Daemon,
    scheduler: SchedulerServer,
    conductor: oslo_messaging.RPCTransport,
):
    with broker.outage():
        wait_until(lambda: not healthy(agent))
    uuid = claimed(conductor, 10)
    wait_until(lambda: counted(scheduler) == 1)
    for daemon in (agent, scheduler):
        wait_until(partial(healthy, daemon))
    AgentAPI(conductor, HOSTS[0], timeout=60).release_claim(CONTEXT, uuid)
    assert "ACCESS_REFUSED" not in broker.log.read_text()


def test_the_broker_refuses_messages_that_no_service_sends(broker: GuardedRabbitMQ):
    limit = broker.evaluate("application:get_env(rabbit, max_message_size)")
    assert limit == "{ok, 67108864}"


def healthy(daemon: Daemon | SchedulerServer) -> bool:
    checks: dict[str, Any] = daemon.read("health")["checks"]
    shown = {part: each[0] for part, each in checks.items() if part in ("rpc", "notifications")}
    return all(each["status"] == "pass" and not each.get("output") for each in shown.values())
