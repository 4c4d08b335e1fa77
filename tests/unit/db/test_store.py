import threading
from pathlib import Path

import pytest
from sqlalchemy import Engine, update

from rtagent.db.engine import open_engine
from rtagent.db.registry import SqlServiceRegistry
from rtagent.db.schema import claims
from rtagent.db.store import SqlStore
from rtagent.errors import ChangeRejected, ConfigError, RevisionConflict, StoreUnavailable
from rtagent.ports import ServiceRegistry, Store
from tests.unit.db.cases import StoreCases, commit, enrolled, holds, same
from tests.unit.db.move_cases import EvacuationCases, MoveCases
from tests.unit.db.values import NODE, claim, created, state_of


class SqlDatabase:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def store(self) -> Store:
        return SqlStore(self._engine)

    def registry(self) -> ServiceRegistry:
        return SqlServiceRegistry(self._engine)


class TestSqlStore(StoreCases, MoveCases, EvacuationCases):
    @pytest.fixture
    def database(self, engine: Engine) -> SqlDatabase:
        return SqlDatabase(engine)


def test_a_claim_that_cannot_be_read_is_held_and_flagged(engine: Engine):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), created(claim(1), claim(2)))
    with engine.begin() as connection:
        connection.execute(
            update(claims).where(claims.c.uuid == claim(1).uuid).values(document='{"flavor": 7')
        )
    loaded = {c.uuid: c for c in store.load(NODE.uuid).claims}
    broken, whole = loaded[claim(1).uuid], loaded[claim(2).uuid]
    assert whole == state.claims[whole.uuid]
    assert broken.suspect is not None
    assert "cannot be read" in broken.suspect
    assert broken.usage == claim(1).usage
    assert broken.owner_id == claim(1).owner_id


def test_text_that_is_no_utf8_is_refused(engine: Engine):
    store = SqlStore(engine)
    state = enrolled(store)
    with pytest.raises(ChangeRejected, match="UTF-8"):
        commit(store, state, created(claim(1, tag="\ud800")))
    holds(store, state)


def test_two_writers_on_one_database_do_not_both_commit(engine: Engine):
    """Two threads of one epoch, always on the same revision: one of each pair is refused."""
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


def test_ten_thousand_claims_are_loaded(engine: Engine):
    store = SqlStore(engine)
    state = commit(store, enrolled(store), *(created(claim(n)) for n in range(10_000)))
    stored = store.load(NODE.uuid)
    same(stored, state)
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
def test_what_is_wrong_with_the_database_is_told(engine: Engine, trouble: str, cause: str):
    store = SqlStore(engine)
    state = enrolled(store)
    with engine.connect() as connection:
        connection.exec_driver_sql(trouble)
        connection.commit()
    change = created(*(claim(n) for n in range(50)))
    with pytest.raises(StoreUnavailable, match=cause):
        commit(store, state, change)
    holds(store, state)


def test_a_lock_is_waited_for_and_not_without_end(engine: Engine, tmp_path: Path):
    store = SqlStore(open_engine(str(engine.url), 0.05))
    state = enrolled(store)
    with engine.connect().execution_options(writes=True) as other:
        other.begin()
        with pytest.raises(StoreUnavailable, match="locked"):
            commit(store, state, created(claim(1)))
        holds(store, state)
        other.rollback()
    commit(store, state, created(claim(1)))


def test_a_directory_that_does_not_exist(tmp_path: Path):
    store = SqlStore(open_engine(f"sqlite:///{tmp_path}/none/db.sqlite", 5))
    with pytest.raises(StoreUnavailable, match="unable to open database file"):
        store.load(NODE.uuid)


def test_every_commit_is_on_the_disk(engine: Engine):
    """FULL: the log is synced at each commit; WAL: readers do not wait."""
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1


@pytest.mark.parametrize("url", ["nonsense", "oracle://x", "sqlite+nothing:///x", ""])
def test_a_url_of_no_database_of_ours_is_refused(url: str):
    with pytest.raises(ConfigError, match="connection"):
        open_engine(url, 5)
