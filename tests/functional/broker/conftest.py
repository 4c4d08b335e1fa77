"""A broker with few rights for each user, and the services that use it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import rtagent.rpc  # noqa: F401  before oslo.messaging: it selects the threading backend

# isort: split
import oslo_messaging
import pytest
from oslo_config import cfg

from rtagent.rpc.transport import get_transport
from tests.servers.daemon import Config, Daemon, SchedulerServer, wait_until
from tests.servers.guarded_rabbitmq import GuardedRabbitMQ

HOSTS = ("cn1", "cn2.example")
#: The name of a queue of calls for all agents begins with this.
FANOUT = "rtagent_fanout_"


def options(broker: GuardedRabbitMQ, user: str) -> Config:
    """The options of a daemon that connects as a user."""
    return {
        "DEFAULT": {"report_interval": 5},
        "scheduler": {"report_jitter": 0.1},
        "oslo_messaging_rabbit": {**broker.options(user), "rabbit_interval_max": 1},
        "oslo_messaging_notifications": {"driver": "messagingv2"},
    }


def transport_of(broker: GuardedRabbitMQ, user: str) -> oslo_messaging.RPCTransport:
    """The transport of a user, as another process would have one."""
    conf = cfg.ConfigOpts()
    conf([])
    transport = get_transport(conf, broker.url(user))
    transport.cleanup()
    for name, value in {**broker.options(user), "rabbit_interval_max": "1"}.items():
        conf.set_override(name, value, group="oslo_messaging_rabbit")
    return get_transport(conf, broker.url(user))


@pytest.fixture(scope="package")
def broker() -> Iterator[GuardedRabbitMQ]:
    with GuardedRabbitMQ(HOSTS) as made:
        yield made


@pytest.fixture(scope="package")
def agent(broker: GuardedRabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """The agent of the first host, which reads all of its queues: it may begin after READY=1."""
    user, directory = f"agent-{HOSTS[0]}", tmp_path_factory.mktemp("agent")
    made = Daemon(directory, broker.url(user), config=options(broker, user))
    made.configure({"DEFAULT": {"host": HOSTS[0]}})
    with made:
        made.wait_ready()
        wait_until(
            lambda: {f"rtagent.{HOSTS[0]}", f"rtagent_lock.{HOSTS[0]}", FANOUT} <= read(broker)
        )
        yield made


def read(broker: GuardedRabbitMQ) -> set[str]:
    """The queues that have a consumer, without the ids of those of all agents."""
    return {
        FANOUT if name.startswith(FANOUT) else name
        for name, consumers, _ in broker.queues()
        if consumers != "0"
    }


@pytest.fixture(scope="package")
def scheduler(
    broker: GuardedRabbitMQ, agent: Daemon, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SchedulerServer]:
    directory = tmp_path_factory.mktemp("scheduler")
    config = options(broker, "scheduler")
    with SchedulerServer(directory, broker.url("scheduler"), config=config) as made:
        yield made.wait_ready()


@pytest.fixture(scope="package")
def conductor(broker: GuardedRabbitMQ) -> Iterator[oslo_messaging.RPCTransport]:
    """The transport of a conductor."""
    made = transport_of(broker, "conductor")
    yield made
    made.cleanup()


@pytest.fixture(scope="package")
def operator(broker: GuardedRabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The configuration of an operator's commands."""
    file = tmp_path_factory.mktemp("operator") / "rtagent.conf"
    groups = {
        "DEFAULT": {"transport_url": broker.url("operator")},
        "oslo_messaging_rabbit": broker.options("operator"),
    }
    file.write_text(
        "".join(
            f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in values.items())
            for group, values in groups.items()
        )
    )
    return file
