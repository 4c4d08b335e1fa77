"""Homes for agents that are to die."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest

from tests.crash.child_home import ChildHome
from tests.crash.scene import Scene
from tests.stream.home import DaemonHome, migrated, open_transport


@pytest.fixture
def child(database_url: str, tmp_path: Path) -> Iterator[Scene]:
    """An agent without a bus, on each kind of database."""
    scene = Scene(ChildHome(tmp_path, migrated(database_url)), seed="child")
    yield scene
    scene.close()


@pytest.fixture(scope="session")
def transport(rabbitmq_server) -> Iterator[oslo_messaging.RPCTransport]:
    """For every caller of every daemon."""
    transport = open_transport(rabbitmq_server.transport_url)
    yield transport
    transport.cleanup()


@pytest.fixture
def daemon_on(
    request: pytest.FixtureRequest, rabbitmq, transport: oslo_messaging.RPCTransport, tmp_path: Path
) -> Iterator[Callable[..., Scene]]:
    """Makes a daemon, given the kind of its database: `sqlite` (its own), `postgresql` or
    `mariadb`; and options of `DaemonHome`."""
    made: list[Scene] = []

    def make(kind: str, **options: Any) -> Scene:
        server = None if kind == "sqlite" else request.getfixturevalue(kind)
        directory = tmp_path / f"home{len(made)}"
        home = DaemonHome(directory, transport, server, **options)
        made.append(Scene(home, seed=kind))
        return made[-1]

    yield make
    for scene in made:
        scene.close()
