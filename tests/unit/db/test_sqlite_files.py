"""An SQLite database whose files are removed or replaced while it is open."""

import shutil
from pathlib import Path

import pytest
from sqlalchemy import Engine

from rtagent.db import durability
from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.errors import CommitUnknown, StoreUnavailable
from tests.support.stored_values import NODE, claim, created
from tests.support.stores import assert_loads, commit, enrolled

REFUSED = (CommitUnknown, StoreUnavailable)
FILES = ("db.sqlite", "db.sqlite-wal", "db.sqlite-shm")


@pytest.mark.parametrize("name", FILES)
def test_commit_to_a_removed_file_is_not_acknowledged(engine: Engine, tmp_path: Path, name: str):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), created(claim(1)))
    aside = tmp_path / "aside"
    (tmp_path / name).rename(aside)

    # Or not begun, if the machine is so slow that the files are checked again before.
    with pytest.raises(REFUSED, match=f"{name} is removed: put back the file") as refused:
        commit(store, state, created(claim(2)))
    written = (1, 2) if refused.errisinstance(CommitUnknown) else (1,)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=f"{name} is removed"):
            store.reload(NODE.uuid, state.epoch)
    assert f"{name} is removed" in durability.faults(engine)
    assert not (tmp_path / name).exists()

    aside.rename(tmp_path / name)
    reloaded = store.reload(NODE.uuid, state.epoch)
    assert {c.uuid for c in reloaded.claims} == {claim(n).uuid for n in written}
    assert durability.faults(engine) == ""


@pytest.mark.parametrize("name", FILES)
def test_commit_to_a_replaced_file_is_not_acknowledged(engine: Engine, tmp_path: Path, name: str):
    store = SqlStore(engine)
    state = enrolled(store)
    shutil.copy(tmp_path / name, tmp_path / "copy")
    (tmp_path / "copy").rename(tmp_path / name)

    with pytest.raises(REFUSED, match=f"{name} is replaced"):
        commit(store, state, created(claim(1)))
    with pytest.raises(StoreUnavailable, match=f"{name} is replaced"):
        store.reload(NODE.uuid, state.epoch)


def test_new_connection_does_not_create_a_database(engine: Engine, tmp_path: Path):
    store = SqlStore(engine)
    state = enrolled(store)
    engine.dispose()
    (tmp_path / FILES[0]).rename(tmp_path / "aside")

    with pytest.raises(StoreUnavailable, match=f"{FILES[0]} is removed"):
        store.load(NODE.uuid)
    assert not (tmp_path / FILES[0]).exists()

    (tmp_path / "aside").rename(tmp_path / FILES[0])
    assert_loads(store, state)


@pytest.mark.parametrize("name", FILES)
def test_new_connection_does_not_begin_another_wal(engine: Engine, tmp_path: Path, name: str):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), created(claim(1)))
    aside = tmp_path / "aside"
    with engine.connect():
        (tmp_path / name).rename(aside)
        with pytest.raises(StoreUnavailable, match=f"{name} is removed"):
            store.load(NODE.uuid)  # the pool has no other connection
        assert not (tmp_path / name).exists()
        aside.rename(tmp_path / name)
    assert_loads(store, state)


def test_link_to_the_database_may_not_change(tmp_path: Path, engine: Engine):
    link = tmp_path / "link"
    link.symlink_to(FILES[0])
    store = SqlStore(open_engine(f"sqlite:///{link}", 5))
    state = commit(store, enrolled(store), created(claim(1)))
    (tmp_path / "other").touch()
    link.unlink()
    link.symlink_to("other")

    with pytest.raises(CommitUnknown, match="link is replaced"):
        commit(store, state, created(claim(2)))
