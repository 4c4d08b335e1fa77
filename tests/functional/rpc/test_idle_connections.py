"""The connections of an idle agent wait for messages without a pause, and can be stopped."""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from tests.functional.rpc.conftest import Station
from tests.servers import RabbitMQ

#: The interval of heartbeats, and so much of it that passes between two looks at them.
HEARTBEAT, WAIT = 60, 10

VOLUNTARY = re.compile(r"^voluntary_ctxt_switches:\s+(\d+)$", re.MULTILINE)


def threads() -> set[str]:
    return set(os.listdir("/proc/self/task"))


def waits(chosen: set[str]) -> int:
    """Return how often these threads have waited, those that have not ended."""
    statuses = (Path(f"/proc/self/task/{each}/status").read_text() for each in chosen & threads())
    return sum(int(count) for status in statuses for count in VOLUNTARY.findall(status))


def test_idle_server_does_not_poll_and_stops_at_once(
    rabbitmq: RabbitMQ, station_on: Callable[..., Station]
):
    others = threads()  # also of earlier tests, which may still reconnect
    station = station_on(rabbitmq.transport_url).start()
    client = station.client()
    client.ping(station.context)
    server = threads() - others
    before = waits(server)
    time.sleep(WAIT / 2)
    assert len(server) > 1
    assert waits(server) - before < 40  # one that polls makes a hundred
    client.ping(station.context)
    began = time.monotonic()
    assert station.server.stop(30)
    assert time.monotonic() - began < WAIT
