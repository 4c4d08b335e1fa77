"""Sites on which outages happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest

from tests.functional.outage.site import Site
from tests.servers import Placement
from tests.support.workload.deployment import DaemonHome, open_transport

#: The longest pause between two attempts to reach the broker: 1 s.
RETRY = {"rabbit_interval_max": 1}

#: Short intervals and time limits, in seconds.
BRISK = {
    "oslo_messaging_rabbit": RETRY,
    "DEFAULT": {"report_interval": 1, "service_down_time": 60, "update_resources_interval": 1},
    "database": {"operation_timeout": 2},
    "libvirt": {"call_timeout": 4},
}


@pytest.fixture(scope="module")
def transport(rabbitmq_server) -> Iterator[oslo_messaging.RPCTransport]:
    transport = open_transport(rabbitmq_server.transport_url, **RETRY)
    yield transport
    transport.cleanup()


@pytest.fixture(scope="module")
def placement_server() -> Iterator[Placement]:
    with Placement() as server:
        yield server


@pytest.fixture
def site_with(
    rabbitmq, transport: oslo_messaging.RPCTransport, tmp_path: Path
) -> Iterator[Callable[..., Site]]:
    """Makes a site from the server of its database and options of `DaemonHome`.

    Without a server the daemon has an embedded database.
    """
    made: list[Site] = []

    def make(server: Any = None, **options: Any) -> Site:
        config = {**BRISK, **options.pop("config", {})}
        home = DaemonHome(tmp_path / "home", transport, server, vcpus=24, config=config, **options)
        made.append(Site(home))
        return made[-1]

    yield make
    for site in made:
        site.close()
