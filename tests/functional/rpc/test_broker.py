"""The agent and a real message broker that stops and starts."""

import functools
import logging
import threading
import time
from collections.abc import Callable

import amqp
import oslo_messaging
import pytest
from oslo_context.context import RequestContext

from rtagent.rpc.calls import UNANSWERED
from rtagent.rpc.client import AgentAPI
from rtagent.testing.failpoints import Failpoint, FailpointStore
from tests.functional.rpc.conftest import Station
from tests.servers import RabbitMQ
from tests.servers.daemon import wait_until
from tests.support.hosts import uid


def instance() -> dict:
    return {"uuid": uid(), "flavor": {"vcpus": 1, "memory_mb": 128}}


def test_quorum_queues_are_supported(rabbitmq: RabbitMQ, station_on: Callable[..., Station]):
    # its own virtual host: all hosts share the queue of the topic, which has one type
    vhost = f"quorum-{uid()}"
    rabbitmq.add_vhost(vhost)
    options = {"rabbit_quorum_queue": True, "rabbit_transient_quorum_queue": True}
    station = station_on(f"{rabbitmq.transport_url}{vhost}", options).start()
    claim = station.client().instance_claim(station.context, instance())
    assert set(station.agent.tracker.snapshot().claims) == {claim["uuid"]}
    with amqp.Connection(f"127.0.0.1:{rabbitmq.port}", virtual_host=vhost) as connection:
        channel = connection.channel()
        with pytest.raises(amqp.exceptions.PreconditionFailed, match="quorum"):
            channel.queue_declare(f"rtagent.{station.host}", durable=True, auto_delete=False)


def test_the_server_starts_before_the_broker(
    rabbitmq: RabbitMQ, station_on: Callable[..., Station]
):
    with rabbitmq.outage():
        station = station_on(rabbitmq.transport_url)
        station.server.start()
        wait_until(lambda: station.health() == "warn")
    assert station.server.wait_started(120)
    assert station.health() == "pass"
    assert station.client().ping(station.context)["host"]


def test_calls_survive_a_restart_of_the_broker(
    rabbitmq: RabbitMQ, station_on: Callable[..., Station]
):
    station = station_on(rabbitmq.transport_url).start()
    api, ctx = station.client(timeout=3, attempts=60), station.context
    before = api.instance_claim(ctx, instance())
    answers: list[dict] = []
    callers = [
        threading.Thread(target=lambda: answers.append(api.instance_claim(ctx, instance())))
        for _ in range(3)
    ]
    with rabbitmq.outage():
        for caller in callers:
            caller.start()
        time.sleep(1)
    for caller in callers:
        caller.join(300)
    granted = {claim["uuid"] for claim in (before, *answers)}
    assert len(granted) == 4
    assert set(station.agent.tracker.snapshot().claims) == granted


def test_a_call_without_a_broker_ends_in_time(
    rabbitmq: RabbitMQ, station_on: Callable[..., Station]
):
    """oslo.messaging alone would wait without limit, at the first call and at later ones."""
    station = station_on(rabbitmq.transport_url).start()
    old, new = (station.client(timeout=1, attempts=1) for _ in range(2))
    assert replies(old, station.context)
    with rabbitmq.outage():
        for api in (old, new):
            fails(api, station.context)
    for api in (old, new):
        wait_until(functools.partial(replies, api, station.context))
    rabbitmq.freeze()
    fails(old, station.context)
    rabbitmq.thaw()  # or else to close the connections takes a minute


def fails(api: AgentAPI, ctx: RequestContext) -> None:
    with pytest.raises(UNANSWERED):
        api.ping(ctx)


def replies(api: AgentAPI, ctx: RequestContext) -> bool:
    try:
        return bool(api.ping(ctx))
    except UNANSWERED:
        return False


def test_a_stop_without_a_broker_ends_in_time(
    rabbitmq: RabbitMQ, station_on: Callable[..., Station], caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO)
    with rabbitmq.outage():
        never_connected = station_on(rabbitmq.transport_url)
        never_connected.server.start()
        assert not never_connected.server.stop(1)
    assert "gave up waiting for the message broker" in caplog.messages


def test_a_reply_that_cannot_be_sent_does_not_block_a_stop(
    rabbitmq: RabbitMQ, station_on: Callable[..., Station]
):
    stuck, admission = threading.Event(), threading.Event()

    def block() -> None:
        stuck.set()
        admission.wait(300)

    station = station_on(
        rabbitmq.transport_url,
        wrap=lambda store: FailpointStore(store, Failpoint("commit.before", 2, block)),
    ).start()
    once = uid()

    def call() -> None:
        with pytest.raises(oslo_messaging.MessagingTimeout):
            station.client(timeout=10, attempts=1).instance_claim(
                station.context, instance(), operation_id=once
            )

    caller = threading.Thread(target=call)
    caller.start()
    assert stuck.wait(60)
    with rabbitmq.outage():
        admission.set()
        assert not station.server.stop(3)
        caller.join(120)
    # The claim is durable: the caller repeats its call, which the next process answers.
    assert set(station.agent.tracker.snapshot().claims) == {once}


def test_a_broker_that_refuses_is_reported_and_tried_again(
    rabbitmq: RabbitMQ, station_on: Callable[..., Station]
):
    user = f"agent-{uid()}"
    rabbitmq.add_user(user, "other")
    station = station_on(rabbitmq.transport_url.replace("guest:guest", f"{user}:secret"))
    station.server.start()
    wait_until(lambda: station.health() == "fail")
    rabbitmq.change_password(user, "secret")
    rabbitmq.permit(user, ".*", ".*", ".*")
    assert station.server.wait_started(120)
    assert station.health() == "pass"
    assert station.client().ping(station.context)["host"]
