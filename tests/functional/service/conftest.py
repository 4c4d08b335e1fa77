"""A client of the daemon under test, over the message broker."""

from collections.abc import Iterator

import pytest

from rtagent.rpc.client import AgentAPI
from tests.servers import RabbitMQ
from tests.servers.daemon import Daemon
from tests.support.workload.deployment import open_transport


@pytest.fixture
def agent(daemon: Daemon, rabbitmq: RabbitMQ) -> Iterator[AgentAPI]:
    transport = open_transport(rabbitmq.transport_url)
    yield AgentAPI(transport, daemon.host, timeout=60)
    transport.cleanup()
