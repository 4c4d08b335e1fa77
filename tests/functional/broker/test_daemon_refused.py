"""A daemon that the broker refuses goes on, and says what its user lacks."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.functional.broker.conftest import HOSTS, options
from tests.functional.broker.test_recipe import healthy
from tests.servers.daemon import Daemon, wait_until
from tests.servers.guarded_rabbitmq import VHOST, GuardedRabbitMQ

HOST = HOSTS[1]
USER = f"agent-{HOST}"
#: More than a daemon has, and fewer than some minutes of attempts would leave behind.
CONNECTIONS = 20


@pytest.fixture
def daemon(broker: GuardedRabbitMQ, tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path, broker.url(USER), config=options(broker, USER))
    made.configure({"DEFAULT": {"host": HOST}})
    yield made
    made.close()


def output(daemon: Daemon) -> str:
    return str(daemon.read("health")["checks"]["rpc"][0].get("output", ""))


def test_what_the_broker_refuses_is_named_until_it_is_given(
    broker: GuardedRabbitMQ, daemon: Daemon, tmp_path: Path
):
    cert, key = (shutil.copy(each, tmp_path) for each in expired(broker))
    daemon.configure({"oslo_messaging_rabbit": {"ssl_cert_file": cert, "ssl_key_file": key}})
    broker.permit(USER, "^$", ".*", ".*", vhost=VHOST)
    daemon.start().wait_ready()
    wait_until(lambda: "by a certificate that has not expired" in output(daemon))

    for new, old in zip(broker.authority.certificate(USER), (cert, key), strict=True):
        shutil.copy(new, old)
    missing = f"give the user '{USER}' the permission 'configure' for the queue 'rtagent.{HOST}'"
    wait_until(lambda: missing in output(daemon))
    daemon.wait_logged(missing)
    assert daemon.running
    # An attempt that is refused leaves no connection behind.
    assert len(psutil.Process(daemon.pid).net_connections()) < CONNECTIONS

    broker.restore()
    wait_until(lambda: healthy(daemon))


def expired(broker: GuardedRabbitMQ) -> tuple[Path, Path]:
    return broker.authority.certificate(USER, expired=True)
