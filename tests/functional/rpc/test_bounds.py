"""Bounds for each caller over a message broker."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import cast

from rtagent.api.reply import Reply
from rtagent.conf.rpc import Rpc
from rtagent.errors import TooManyRequests
from tests.functional.rpc.conftest import Station
from tests.servers import RabbitMQ
from tests.servers.daemon import wait_until
from tests.support.hosts import uid

FLOOD = 100
PATIENCE = 240


class SlowReply:
    """A reply of the read API that takes its time. :ivar go: ends the wait."""

    status = 200

    def __init__(self) -> None:
        self.go = threading.Event()

    @property
    def body(self) -> bytes:
        self.go.wait(PATIENCE)
        return b"{}"


def test_a_caller_that_floods_is_bounded_and_another_does_not_notice(
    station_on: Callable[..., Station], rabbitmq: RabbitMQ
):
    bounds = Rpc()
    station, reply = station_on(rabbitmq.transport_url, bounds=bounds), SlowReply()
    station.agent.document = cast(Reply, reply)
    station.start()
    flooding, other = (station.client(attempts=1, timeout=PATIENCE) for _ in range(2))
    with ThreadPoolExecutor(FLOOD) as threads:

        def call() -> Future[object]:
            return threads.submit(flooding.get_document, station.context, "/claims")

        try:
            calls = [call() for _ in range(FLOOD)]
            served = bounds.max_calls_per_caller

            wait_until(lambda: sum(each.done() for each in calls) == FLOOD - served, PATIENCE)
            for _ in range(8):
                wanted = {"uuid": uid(), "flavor": {"vcpus": 1, "memory_mb": 64}}
                other.instance_claim(station.context, wanted)
            assert sum(each.done() for each in calls) == FLOOD - served
            flooding.ping(station.context)  # every caller may
        finally:
            reply.go.set()
        errors = [error for each in calls if (error := each.exception(PATIENCE)) is not None]
    assert len(errors) == FLOOD - served
    for error in errors:
        assert isinstance(error, TooManyRequests)
        assert "which is [rpc] max_calls_per_caller: repeat the call" in error.message
    assert station.agent.sample("calls_refused_total", reason="calls") == len(errors)
