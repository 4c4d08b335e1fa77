"""Callers of daemons."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
import oslo_messaging

from tests.servers import RabbitMQ
from tests.support.workload.deployment import open_transport


@pytest.fixture(scope="module")
def transport(rabbitmq_server: RabbitMQ) -> Iterator[oslo_messaging.RPCTransport]:
    """That of the callers of a module's daemons."""
    transport = open_transport(rabbitmq_server.start().transport_url)
    yield transport
    transport.cleanup()
