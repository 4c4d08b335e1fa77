from pathlib import Path

import pytest

from rtagent.db.engine import open_engine
from rtagent.db.schema import metadata
from rtagent.db.store import SqlStore
from rtagent.model.stored import Retention
from rtagent.ports import Store
from rtagent.testing.failpoints import POINTS, Failpoint, FailpointStore
from tests.support.stored_values import NODE, claim, created
from tests.support.stores import assert_loads, commit, enrolled


class Killed(Exception):
    """Raised in place of the signal, which would end the tests."""


def kill() -> None:
    raise Killed


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/db.sqlite"
    metadata.create_all(open_engine(url, 5))
    return url


def wrapped(url: str, failpoint: str) -> Store:
    point = Failpoint.parse(failpoint, kill)
    return FailpointStore(SqlStore(open_engine(url, 5), point.passed), point)


def run(store: Store) -> None:
    """Call every method that writes."""
    store.reload(NODE.uuid, enrolled(store).epoch)
    commit(store, enrolled(store), created(claim(1)))
    store.purge(NODE.uuid, 1, Retention())


@pytest.mark.parametrize("name", POINTS)
def test_every_failpoint_is_passed(url: str, name: str):
    with pytest.raises(Killed):
        run(wrapped(url, name))


@pytest.mark.parametrize("name", [name for name in POINTS if name.startswith("commit")])
def test_killed_commit_is_complete_or_absent(url: str, name: str):
    store = wrapped(url, f"{name}:2")
    state = commit(store, enrolled(store), created(claim(1)))
    change = created(claim(2))
    with pytest.raises(Killed):
        commit(store, state, change)
    survivor = SqlStore(open_engine(url, 5))
    assert_loads(survivor, state.fold(change) if name == "commit.after" else state)
    written = name == "commit.after"
    assert (survivor.operation(NODE.uuid, claim(2).uuid) is not None) is written
    assert len(survivor.history(NODE.uuid)) == 1 + written
