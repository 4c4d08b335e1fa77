"""Errors of a store when its server or its connection fails, and their time bound."""

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, event, text

from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.db.transaction import errors_of
from rtagent.errors import CommitUnknown, Deadlock, StoreUnavailable, WriterFenced
from rtagent.model.claim import ACTIVE
from rtagent.model.node_state import NodeState
from rtagent.model.stored import Stored
from rtagent.ports import Store
from tests.servers import MariaDB, PostgreSQL
from tests.servers.proxy import CommitLoss, Proxy
from tests.support.stored_values import NODE, changed, claim, created, folded, pinned, released
from tests.support.stores import assert_loads, assert_stored, commit, enrolled
from tests.support.workload.deployment import migrated

#: Seconds.
TIMEOUT = 4.0


class Site:
    """A store that connects to its database through a proxy, and one that connects directly."""

    def __init__(self, server: PostgreSQL | MariaDB, url: str, proxy: Proxy) -> None:
        self.server, self.proxy = server, proxy
        self.engine = open_engine(proxy.url(url), TIMEOUT)
        # A longer time-out than the store's, so that it keeps locks as long as a test needs.
        self.direct_engine = open_engine(url, TIMEOUT * 10)
        self.at: Callable[[str], None] = lambda _: None
        self.store = SqlStore(self.engine, self._passed)
        self.direct = SqlStore(self.direct_engine)
        self.connects = 0
        event.listen(self.engine, "connect", self._count)

    def counted(self) -> dict[str, int]:
        """Return the failed transactions of the store, by kind."""
        counts = errors_of(self.engine).counts()
        return {kind: number for kind, number in counts.items() if number}

    def _passed(self, name: str) -> None:
        self.at(name)

    def _count(self, *_: object) -> None:
        self.connects += 1


@pytest.fixture(params=["postgresql", "mariadb"])
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    server: PostgreSQL | MariaDB = request.getfixturevalue(request.param)
    url = migrated(server.create_database())
    with Proxy(server.port) as proxy:
        site = Site(server, url, proxy)
        yield site
        site.engine.dispose()
        site.direct_engine.dispose()


def reloaded(store: Store, state: NodeState) -> Stored:
    """Reload until it succeeds, as a stale agent does."""
    while True:
        try:
            return store.reload(NODE.uuid, state.epoch)
        except StoreUnavailable:
            time.sleep(0.05)


@pytest.mark.parametrize("loss", [CommitLoss.LOST, CommitLoss.UNANSWERED])
def test_reload_after_a_lost_commit_reads_its_outcome(site: Site, loss: CommitLoss):
    state = commit(site.store, enrolled(site.store), created(claim(1)))
    after = folded(state, created(claim(2)))
    site.proxy.lose_commit(loss)
    with pytest.raises(CommitUnknown):
        site.store.commit(state, after, [created(claim(2))])
    assert_stored(reloaded(site.store, state), after if loss is CommitLoss.UNANSWERED else state)


def test_reload_waits_for_a_commit_in_flight(site: Site):
    state = enrolled(site.store)
    after = folded(state, created(claim(1)))
    site.proxy.lose_commit(CommitLoss.LATE)
    with pytest.raises(CommitUnknown):
        site.store.commit(state, after, [created(claim(1))])
    assert_loads(site.direct, state)
    threading.Timer(TIMEOUT / 4, site.proxy.release).start()
    assert_stored(reloaded(site.store, state), after)


@pytest.mark.parametrize("together", [1, 5])
def test_reload_defeats_a_commit_that_never_arrives(site: Site, together: int):
    state = enrolled(site.store)
    site.proxy.lose_commit(CommitLoss.LATE)
    with pytest.raises(CommitUnknown):
        commit(site.store, state, *(created(claim(n)) for n in range(together)))
    assert_stored(reloaded(site.store, state), state)
    site.proxy.release()
    assert_loads(site.direct, state)


def test_lost_reload_does_not_fence_its_own_writer(site: Site):
    state = enrolled(site.store)
    site.proxy.lose_commit(CommitLoss.UNANSWERED)
    with pytest.raises(StoreUnavailable):
        site.store.reload(NODE.uuid, state.epoch)
    assert site.store.reload(NODE.uuid, state.epoch).epoch == state.epoch + 2
    enrolled(site.direct)
    with pytest.raises(WriterFenced):
        site.store.reload(NODE.uuid, state.epoch)


@pytest.mark.parametrize("point", ["commit.node", "commit.claims", "commit.units", "commit.events"])
def test_connection_lost_within_a_transaction_leaves_no_rows(site: Site, point: str):
    one, two = pinned(1, 4, 5), pinned(2, 5, 6)
    state = commit(site.store, enrolled(site.store), created(one))
    if point == "commit.events":  # COMMIT follows
        expected: type[Exception] = CommitUnknown
    else:
        expected = StoreUnavailable
    site.at = lambda name: site.proxy.cut() if name == point else None
    with pytest.raises(expected):
        commit(site.store, state, released(one), created(two))
    site.at = lambda _: None
    assert_loads(site.direct, state)
    assert_loads(site.direct, commit(site.store, state, released(one), created(two)))


def test_connections_lost_while_idle_are_replaced(site: Site):
    state = enrolled(site.store)
    connects = site.connects
    site.proxy.cut()
    time.sleep(0.1)  # until the server has closed the connections
    state = commit(site.store, state, created(claim(1)))
    assert site.connects == connects + 1
    commit(site.store, state, created(claim(2)))
    assert site.connects == connects + 1


def test_store_works_again_after_a_server_restart(site: Site):
    state = commit(site.store, enrolled(site.store), created(claim(1)))
    with site.server.outage(), pytest.raises(StoreUnavailable):
        commit(site.store, state, created(claim(2)))
    commit(site.store, state, created(claim(2)))


def test_wait_for_a_frozen_server_is_bounded(site: Site):
    state = commit(site.store, enrolled(site.store), created(claim(1)))
    site.server.freeze()
    try:
        with pytest.raises(StoreUnavailable):
            commit(site.store, state, created(claim(2)))
        with pytest.raises(StoreUnavailable):
            site.store.load(NODE.uuid)
    finally:
        site.server.thaw()
    assert_stored(reloaded(site.store, state), state)
    assert site.counted() == {"timeout": 2}


def test_wait_for_a_lock_is_bounded(site: Site):
    state = enrolled(site.store)
    with site.direct_engine.connect() as other:
        other.execute(text("UPDATE compute_nodes SET host = 'x'"))
        with pytest.raises(StoreUnavailable, match=r"(?i)lock"):
            commit(site.store, state, created(claim(1)))
    commit(site.store, state, created(claim(1)))
    assert site.counted() == {"timeout": 1}


def test_deadlock_is_distinguished_from_an_outage(site: Site):
    one = claim(1)
    state = commit(site.store, enrolled(site.store), created(one))
    rival = Rival(site.direct_engine)
    site.at = lambda name: rival.wait_for_node() if name == "commit.node" else None
    with pytest.raises(Deadlock):
        commit(site.store, state, changed(one, state=ACTIVE))
    rival.end()
    assert_loads(site.direct, state)
    assert site.counted() == {"deadlock": 1}


class Rival:
    """A transaction that locks every claim's row, then requests its node's row.

    The server prefers it to the store's transaction.
    """

    def __init__(self, engine: Engine) -> None:
        self._connection = engine.connect()
        if engine.dialect.name == "postgresql":
            # PostgreSQL ends the transaction that detects the deadlock.
            self._connection.execute(text("SET deadlock_timeout = '1min'"))
        else:
            # MariaDB ends the transaction with the fewest rows.
            rows = ", ".join(f"('rival-{n}', 'x', 0, 0, 0, 0)" for n in range(100))
            self._connection.execute(
                text(
                    "INSERT INTO services"
                    " (host, `binary`, report_count, disabled, forced_down, version)"
                    f" VALUES {rows}"
                )
            )
        self._connection.execute(text("UPDATE claims SET pcpus = 1"))
        self._thread = threading.Thread(target=self._want_node)

    def wait_for_node(self) -> None:
        self._thread.start()
        time.sleep(0.2)  # until it waits for the row, or is about to

    def end(self) -> None:
        self._thread.join()
        self._connection.close()

    def _want_node(self) -> None:
        self._connection.execute(text("UPDATE compute_nodes SET host = 'x'"))
