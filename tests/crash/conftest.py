"""Deployments of agents that tests kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest
from sqlalchemy.engine import make_url

from tests.crash.agent_home import ChildHome
from tests.crash.scenario import Scenario
from tests.support.workload.deployment import DaemonHome, migrated, open_transport

DATABASES = ("sqlite", "postgresql", "mariadb")
BACKENDS = ("sqlite", "postgresql", "mysql")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A daemon runs on the cheapest database, unless the run is long: what depends on the database
    is shown by an agent without a message bus, on each kind (`child`).
    """
    if "database" in metafunc.fixturenames:
        databases = DATABASES if metafunc.config.getoption("long") else DATABASES[:1]
        metafunc.parametrize("database", databases)


@pytest.fixture
def turn(database_url: str) -> int:
    """The number of the database's kind, from 0: what is tried on one of them only goes in turn."""
    return BACKENDS.index(make_url(database_url).get_backend_name())


@pytest.fixture
def child(database_url: str, tmp_path: Path) -> Iterator[Scenario]:
    """Scenario of an agent without a message bus, on each kind of database."""
    scenario = Scenario(ChildHome(tmp_path, migrated(database_url)), seed="child")
    yield scenario
    scenario.close()


@pytest.fixture(scope="session")
def transport(rabbitmq_server) -> Iterator[oslo_messaging.RPCTransport]:
    """Transport for the callers of all daemons."""
    transport = open_transport(rabbitmq_server.transport_url)
    yield transport
    transport.cleanup()


@pytest.fixture
def daemon_on(
    request: pytest.FixtureRequest, rabbitmq, transport: oslo_messaging.RPCTransport, tmp_path: Path
) -> Iterator[Callable[..., Scenario]]:
    """Factory of daemons: takes the kind of the database (`sqlite`, `postgresql` or `mariadb`) and
    options of `DaemonHome`."""
    made: list[Scenario] = []

    def make(kind: str, **options: Any) -> Scenario:
        server = None if kind == "sqlite" else request.getfixturevalue(kind)
        directory = tmp_path / f"home{len(made)}"
        home = DaemonHome(directory, transport, server, **options)
        made.append(Scenario(home, seed=kind))
        return made[-1]

    yield make
    for scenario in made:
        scenario.close()
