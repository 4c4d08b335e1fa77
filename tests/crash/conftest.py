"""Homes for agents that are to die."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest

from tests.crash.child_home import ChildHome
from tests.crash.scene import Scene
from tests.pci_hosts import GPU_IDS
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


@pytest.fixture
def mover(
    rabbitmq, transport: oslo_messaging.RPCTransport, tmp_path: Path
) -> Callable[..., DaemonHome]:
    """Makes a daemon whose host has two GPUs, and CPUs to be pinned to; given the URL of a
    database, or with its own."""
    alias = {"name": "gpu", **GPU_IDS, "device_type": "type-PCI"}
    config = {
        "compute": {"cpu_shared_set": "0-3", "cpu_dedicated_set": "4-7"},
        "pci": {"device_spec": json.dumps(GPU_IDS), "alias": json.dumps(alias)},
    }
    numbers = itertools.count()

    def make(url: str | None = None) -> DaemonHome:
        directory = tmp_path / f"daemon{next(numbers)}"
        return DaemonHome(directory, transport, None, url=url, vcpus=8, gpus=2, config=config)

    return make
