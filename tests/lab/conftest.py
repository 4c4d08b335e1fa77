"""Lab hosts with the agent of this checkout; their console logs stay in .lab/consoles."""

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
    """A host with two sockets and CPU threads, its agent ready and nothing claimed."""
    return rack.host("two-sockets")
