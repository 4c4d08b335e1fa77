"""SQLite: errors and their counts, locks, threads."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine

from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.db.transaction import Transactions, errors_of
from rtagent.errors import ChangeRejected, RevisionConflict, RtAgentError, StoreUnavailable
from tests.support.stored_values import NODE, claim, created, state_of
from tests.support.stores import assert_loads, commit, enrolled


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


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Engine]:
    """A database with the table ``t``, whose engine waits a short time for a lock."""
    made = open_engine(f"sqlite:///{tmp_path}/db.sqlite", 0.2)
    with made.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (a INTEGER PRIMARY KEY)")
    yield made
    made.dispose()


def write(engine: Engine, *values: int) -> None:
    with Transactions(engine).write() as connection:
        for value in values:
            connection.exec_driver_sql("INSERT INTO t VALUES (?)", (value,))


def counted(engine: Engine) -> dict[str, int]:
    return {kind: number for kind, number in errors_of(engine).counts().items() if number}


def test_refused_rows_are_counted(impatient: Engine):
    with pytest.raises(ChangeRejected):
        write(impatient, 1, 1)
    assert counted(impatient) == {"refused": 1}


def test_lock_that_another_process_keeps_is_a_timeout(impatient: Engine):
    with closing(sqlite3.connect(str(impatient.url.database))) as other:
        other.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="locked"):
                write(impatient, 1)
    assert counted(impatient) == {"timeout": 2}
    write(impatient, 1)


def test_each_engine_has_counters_of_its_own(impatient: Engine, tmp_path: Path):
    other = open_engine(f"sqlite:///{tmp_path}/other.sqlite", 0.2)
    with pytest.raises(RtAgentError):
        write(other, 1)
    assert (counted(other), counted(impatient)) == ({"unavailable": 1}, {})
    other.dispose()
