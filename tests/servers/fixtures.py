"""A fixture for each server: started when the first test asks for it, and running for every test.

A test may stop, kill or freeze the server; the next test finds it running again.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.servers import Libvirtd, MariaDB, Placement, PostgreSQL, RabbitMQ, Server

ServerT = TypeVar("ServerT", bound=Server)


@pytest.fixture(scope="session")
def rabbitmq_server() -> Iterator[RabbitMQ]:
    with RabbitMQ() as server:
        yield server


@pytest.fixture
def rabbitmq(rabbitmq_server: RabbitMQ) -> RabbitMQ:
    """RabbitMQ; the queues of earlier tests are still there."""
    return _running(rabbitmq_server)


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgreSQL]:
    with PostgreSQL() as server:
        yield server


@pytest.fixture
def postgresql(postgresql_server: PostgreSQL) -> PostgreSQL:
    """PostgreSQL, with the databases of earlier tests."""
    return _running(postgresql_server)


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDB]:
    with MariaDB() as server:
        yield server


@pytest.fixture
def mariadb(mariadb_server: MariaDB) -> MariaDB:
    """MariaDB, with the databases of earlier tests."""
    return _running(mariadb_server)


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The SQLAlchemy URL of an empty database; the test runs once on each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/database.sqlite"
    return str(request.getfixturevalue(request.param).create_database())


@pytest.fixture
def placement() -> Iterator[Placement]:
    """Placement with nothing in it."""
    with Placement() as server:
        yield server


@pytest.fixture(scope="session")
def libvirtd_server() -> Iterator[Libvirtd]:
    with Libvirtd() as server:
        yield server


@pytest.fixture
def libvirtd(libvirtd_server: Libvirtd) -> Iterator[Libvirtd]:
    """libvirtd with QEMU and without domains."""
    yield _running(libvirtd_server)
    _running(libvirtd_server).clear()


def _running(server: ServerT) -> ServerT:
    if server.running:
        server.thaw()
    server.start()
    return server
