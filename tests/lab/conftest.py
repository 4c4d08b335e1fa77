"""Hosts of this checkout's agent; their console logs stay in .lab/consoles."""

from collections.abc import Iterator

import pytest

from lab import image
from tests.lab.rack import Rack, Served
from tests.servers import RabbitMQ


@pytest.fixture(scope="session")
def rack(rabbitmq_server: RabbitMQ, worker_id: str) -> Iterator[Rack]:
    rack = Rack(worker_id, image.build(), rabbitmq_server)
    yield rack
    rack.close()


@pytest.fixture
def host(rack: Rack) -> Served:
    """Two sockets with threads, serving, with nothing claimed."""
    return rack.host("two-sockets")
