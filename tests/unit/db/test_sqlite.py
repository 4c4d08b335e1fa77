"""SqlStore on SQLite: errors, locks, durability, threads."""

import threading
from pathlib import Path

import pytest
from sqlalchemy import DDL, Engine

from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.errors import ChangeRejected, ConfigError, RevisionConflict, StoreUnavailable
from tests.support.stored_values import NODE, claim, created, state_of
from tests.support.stores import assert_loads, assert_stored, commit, enrolled


def test_text_without_utf8_encoding_is_rejected(engine: Engine):
    store = SqlStore(engine)
    state = enrolled(store)
    with pytest.raises(ChangeRejected, match="UTF-8"):
        commit(store, state, created(claim(1, tag="\ud800")))
    assert_loads(store, state)


def test_two_writers_on_one_revision_never_both_commit(engine: Engine):
    """Two threads with one epoch commit on the same revision: one of each pair is refused."""
    stores = [SqlStore(engine), SqlStore(engine)]
    state = enrolled(stores[0])
    start = threading.Barrier(2)
    outcomes: list[list[bool]] = [[], []]

    def write(which: int) -> None:
        mine = state
        for round_ in range(20):
            start.wait()
            change = created(claim(100 * which + round_))
            after = mine.fold(change)
            try:
                stores[which].commit(mine, after, [change])
                outcomes[which].append(True)
            except RevisionConflict:
                outcomes[which].append(False)
            start.wait()
            mine = state_of(stores[which].load(NODE.uuid))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(a != b for a, b in zip(*outcomes, strict=True))
    assert len(stores[0].load(NODE.uuid).claims) == 20


def test_ten_thousand_claims_are_loaded_with_one_flavor(engine: Engine):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), *(created(claim(n)) for n in range(10_000)))
    stored = store.load(NODE.uuid)
    assert_stored(stored, state)
    flavors = {id(c.flavor) for c in stored.claims}
    assert len(flavors) == 1


@pytest.mark.parametrize(
    ("trouble", "cause"),
    [
        ("PRAGMA max_page_count = 1", "full"),
        ("PRAGMA query_only = ON", "readonly"),
        ("DROP TABLE operations", "no such table: operations"),
    ],
)
def test_error_names_the_cause(engine: Engine, trouble: str, cause: str):
    store = SqlStore(engine)
    state = enrolled(store)
    with engine.connect() as connection:
        connection.exec_driver_sql(trouble)
        connection.commit()
    change = created(*(claim(n) for n in range(50)))
    with pytest.raises(StoreUnavailable, match=cause):
        commit(store, state, change)
    assert_loads(store, state)


def test_wait_for_a_lock_is_bounded(engine: Engine, tmp_path: Path):
    store = SqlStore(open_engine(str(engine.url), 0.05))
    state = enrolled(store)
    with engine.connect().execution_options(writes=True) as other:
        other.begin()
        with pytest.raises(StoreUnavailable, match="locked"):
            commit(store, state, created(claim(1)))
        assert_loads(store, state)
        other.rollback()
    commit(store, state, created(claim(1)))


def test_missing_directory_makes_the_store_unavailable(tmp_path: Path):
    store = SqlStore(open_engine(f"sqlite:///{tmp_path}/none/db.sqlite", 5))
    with pytest.raises(StoreUnavailable, match="unable to open database file"):
        store.load(NODE.uuid)


def test_commits_are_synced_to_disk(engine: Engine):
    """FULL: the log is synced at each commit. WAL: readers do not wait."""
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


@pytest.mark.parametrize("url", ["nonsense", "oracle://x", "sqlite+nothing:///x", ""])
def test_url_of_an_unsupported_database_is_refused(url: str):
    with pytest.raises(ConfigError, match="connection"):
        open_engine(url, 5)


def test_commit_does_not_write_the_uuid_to_which_all_other_rows_refer(engine: Engine):
    store = SqlStore(engine)
    state = enrolled(store)
    refused = "BEGIN SELECT RAISE(ABORT, 'all rows that refer to it are looked up'); END"
    trigger = DDL(f"CREATE TRIGGER uuid BEFORE UPDATE OF uuid ON compute_nodes {refused}")
    with engine.begin() as connection:
        connection.execute(trigger)
    state = commit(store, state, created(claim(1)))
    assert_stored(store.load(NODE.uuid), state)
