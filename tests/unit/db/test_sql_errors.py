"""Failed transactions are counted by kind."""

import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import text

from rtagent.db.engine import open_engine
from rtagent.db.transaction import Transactions, errors_of
from rtagent.errors import ChangeRejected, RtAgentError, StoreUnavailable


@pytest.fixture
def engine(tmp_path):
    made = open_engine(f"sqlite:///{tmp_path}/db.sqlite", 0.2)
    with made.begin() as connection:
        connection.execute(text("CREATE TABLE t (a INTEGER PRIMARY KEY)"))
    yield made
    made.dispose()


def write(engine, *values: int) -> None:
    with Transactions(engine).write() as connection:
        for value in values:
            connection.execute(text("INSERT INTO t VALUES (:a)"), {"a": value})


def counted(engine):
    return {kind: number for kind, number in errors_of(engine).counts().items() if number}


def test_transactions_that_succeed_are_not_counted(engine):
    write(engine, 1)
    assert errors_of(engine).counts() == dict.fromkeys(
        ("timeout", "deadlock", "refused", "damaged", "unavailable"), 0
    )


def test_refused_rows_are_counted(engine):
    with pytest.raises(ChangeRejected):
        write(engine, 1, 1)
    assert counted(engine) == {"refused": 1}


def test_lock_that_another_process_keeps_is_a_timeout(engine):
    with closing(sqlite3.connect(engine.url.database)) as other:
        other.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                write(engine, 1)
    assert counted(engine) == {"timeout": 2}
    write(engine, 1)


def test_each_engine_has_counters_of_its_own(engine, tmp_path):
    other = open_engine(f"sqlite:///{tmp_path}/other.sqlite", 0.2)
    with pytest.raises(RtAgentError):
        write(other, 1)
    assert counted(other) == {"unavailable": 1}
    assert counted(engine) == {}
    other.dispose()
