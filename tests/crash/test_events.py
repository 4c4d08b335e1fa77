"""A consumer of notifications gets every committed change, in order, whatever is killed."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from rtagent.api.client import EventStream, ReadClient
from tests.servers import RabbitMQ
from tests.servers.daemon import wait_until
from tests.support.event_consumer import DURABLE, Consumer, first_seen, folded
from tests.support.hosts import uid
from tests.support.workload.deployment import DaemonHome, open_transport

TOPIC = "events"
BRISK = {**DURABLE, "rabbit_interval_max": 1, "rabbit_retry_interval": 1}


@pytest.fixture
def url(rabbitmq: RabbitMQ) -> str:
    """The URL of a virtual host of this test alone: its exchange is durable, unlike that of others,
    and messages of earlier tests are not in it."""
    name = f"events-{uuid4()}"
    rabbitmq.add_vhost(name)
    return f"{rabbitmq.transport_url}{name}"


@pytest.fixture
def home(
    request: pytest.FixtureRequest, database: str, url: str, tmp_path: Path
) -> Iterator[DaemonHome]:
    """A daemon."""
    server = None if database == "sqlite" else request.getfixturevalue(database)
    transport = open_transport(url, **BRISK)
    home = DaemonHome(
        tmp_path / "home",
        transport,
        server,
        config={
            "oslo_messaging_rabbit": BRISK,
            "oslo_messaging_notifications": {"driver": "messagingv2", "topics": TOPIC},
        },
    )
    yield home
    home.close()
    transport.cleanup()


@pytest.fixture
def consumer(url: str) -> Iterator[Consumer]:
    consumer = Consumer(url, TOPIC)
    yield consumer
    consumer.leave()


def build(home: DaemonHome, number: int) -> list[str]:
    """Make claims, and return their uuids."""
    return [
        home.invoke(
            "instance_claim",
            instance={
                "uuid": uid(),
                "display_name": "<b>\u202e\x1b[31m",
                "flavor": {"name": "m1", "vcpus": 1, "memory_mb": 1, "root_gb": 0},
            },
        )["uuid"]
        for _ in range(number)
    ]


def sequence(home: DaemonHome) -> int:
    """Return the number of the node's last event, as its read API shows it."""
    client = ReadClient(home.daemon.address)
    stream = EventStream(lambda filters: client.text("events", **filters), newest=0)
    wait_until(lambda: stream.next().complete)
    return int(stream.place.partition("-")[2])


def test_every_change_arrives_in_order(home: DaemonHome, rabbitmq: RabbitMQ, consumer: Consumer):
    consumer.come()
    assert home.start()
    built = build(home, 4)
    home.kill()  # maybe before they were published
    assert home.start()
    home.invoke("activate_claim", claim_uuid=built[0])
    consumer.leave()
    built += build(home, 3)
    home.invoke("release_claim", claim_uuid=built[1])
    rabbitmq.kill()
    home.kill()
    rabbitmq.start()
    assert home.start()
    consumer.come()
    built += build(home, 3)
    last = sequence(home)
    wait_until(lambda: consumer.last >= last)
    events = first_seen(consumer.events)
    assert [event["sequence"] for event in events[:last]] == list(range(1, last + 1))
    claims = ReadClient(home.daemon.address).get("claims")["claims"]
    assert folded(events).keys() == {claim["uuid"] for claim in claims}
    assert len(claims) == len(built) - 1
