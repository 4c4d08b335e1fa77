"""Homes for agents that are to die."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rtagent.db import migrate
from rtagent.db.engine import open_engine
from tests.crash.homes import ChildHome, DaemonHome
from tests.crash.scene import Scene


def migrated(url: str) -> str:
    """The same database, with the schema."""
    engine = open_engine(url, 30)
    migrate.sync(engine)
    engine.dispose()
    return url


@pytest.fixture
def child_scene(database_url: str, tmp_path: Path) -> Iterator[Scene]:
    """An agent without a bus, on each kind of database."""
    scene = Scene(ChildHome(tmp_path, migrated(database_url)), seed=database_url[:5])
    yield scene
    scene.close()


@pytest.fixture
def daemon_scene(rabbitmq, tmp_path: Path) -> Iterator[Callable[[str | None], Scene]]:
    """Makes a daemon on the database of that URL (None: its own)."""
    made: list[Scene] = []

    def make(url: str | None) -> Scene:
        made.append(Scene(DaemonHome(tmp_path, rabbitmq.transport_url, url), seed="daemon"))
        return made[-1]

    yield make
    for scene in made:
        scene.close()
