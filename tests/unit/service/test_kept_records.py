"""The records of a scheduler: the database first, then the view."""

import pytest
from msgspec.structs import replace

from rtagent.db import migrate
from rtagent.db.aggregate_rows import AggregateTable
from rtagent.db.engine import open_engine
from rtagent.errors import StoreUnavailable
from rtagent.scheduler.aggregate_rules import with_host, with_metadata, without_host
from rtagent.scheduler.errors import AggregateNotFound, HostNotFound
from rtagent.service.kept_records import (
    AGGREGATES,
    INTERVAL,
    RETRY,
    SERVICES,
    KeptAggregates,
    KeptServices,
)
from rtagent.testing.memory_store import MemoryServiceRegistry
from tests.support.hosts import ManualClock, uid
from tests.support.trackers import Reports


class Store(AggregateTable):
    """A store that fails while `down`."""

    down = False

    def list(self):
        if self.down:
            raise StoreUnavailable("it is away")
        return super().list()


class AggregateView:
    """:ivar shown: what the view has, after each change."""

    def __init__(self):
        self.shown = []

    def set_aggregates(self, aggregates):
        self.shown.append(tuple(aggregates))


class Counted:
    """How often others were told of a change, and the turns were woken."""

    def __init__(self):
        self.changes = self.wakes = 0

    def changed(self):
        self.changes += 1

    def wake(self):
        self.wakes += 1


class Aggregates(Counted):
    def __init__(self, url):
        super().__init__()
        engine = open_engine(url, 30)
        migrate.ready(engine)
        self.store, self.view, self.reports = Store(engine), AggregateView(), Reports()
        self.kept = KeptAggregates(
            self.store, self.view, self.changed, self.wake, ManualClock(), self.reports
        )
        self.other = AggregateTable(engine)


@pytest.fixture
def aggregates(tmp_path):
    return Aggregates(f"sqlite:///{tmp_path}/scheduler.sqlite")


def test_change_is_in_the_view_and_announced_when_the_call_returns(aggregates):
    made = aggregates.kept.create("fast", {"ssd": "true"}, uid())
    aggregates.kept.change("fast", with_host, "cn1")
    assert aggregates.view.shown == [(made,), (replace(made, hosts=("cn1",)),)]
    assert aggregates.kept.known == aggregates.kept.list() == aggregates.view.shown[-1]
    with pytest.raises(AggregateNotFound):
        aggregates.kept.change("none", without_host, "cn1")
    assert (aggregates.changes, len(aggregates.view.shown)) == (2, 2)


def test_change_by_another_scheduler_is_read_at_the_next_turn(aggregates):
    made = aggregates.other.create("fast", {}, uid())
    aggregates.kept.reread()
    assert aggregates.wakes == 1
    assert aggregates.kept.records.turn().at_most == INTERVAL
    assert aggregates.view.shown == [(made,)]


def test_view_stays_while_the_database_is_away(aggregates):
    made = aggregates.kept.create("fast", {}, uid())
    aggregates.store.down = True
    assert aggregates.kept.records.turn().at_most == RETRY
    assert aggregates.reports.parts[AGGREGATES] == ("warn", "it is away")
    assert aggregates.kept.known == (made,)

    aggregates.kept.change(
        "fast", with_metadata, {"ssd": "true"}
    )  # the change was made; it is read later
    assert (aggregates.changes, aggregates.wakes, aggregates.view.shown) == (2, 1, [(made,)])
    aggregates.store.down = False
    aggregates.kept.records.turn()
    assert aggregates.reports.parts[AGGREGATES][0] == "pass"
    assert aggregates.kept.known[0].metadata == {"ssd": "true"}


class Registry(MemoryServiceRegistry):
    """:ivar answers: how many reads succeed before the database is away."""

    answers = 1000

    def services(self):
        if self.answers == 0:
            raise StoreUnavailable("it is away")
        self.answers -= 1
        return super().services()


class ServiceView:
    """:ivar shown: the hosts that the view has as forced down. :ivar released: no longer."""

    shown = released = frozenset()

    def set_forced_down(self, hosts, released=()):
        self.shown, self.released = frozenset(hosts), frozenset(released)

    def knows(self, host):
        return host == "cn1"


class Records(Counted):
    def __init__(self):
        super().__init__()
        self.registry, self.view, self.reports = Registry(), ServiceView(), Reports()
        self.kept = KeptServices(self.registry, self.view, self.changed, self.wake, self.reports)


@pytest.fixture
def records():
    return Records()


def test_forced_down_host_is_in_the_view_and_announced_when_the_call_returns(records):
    assert records.kept.force_down("cn1", True).forced_down
    assert records.kept.get("cn1").forced_down
    assert (records.view.shown, records.changes) == ({"cn1"}, 1)
    assert records.view.released == frozenset()
    assert not records.kept.force_down("cn1", False).forced_down
    assert (records.view.shown, records.changes) == (frozenset(), 2)
    assert records.view.released == {"cn1"}
    with pytest.raises(HostNotFound):
        records.kept.force_down("cn2", True)
    assert (records.changes, len(records.registry.services())) == (2, 1)


def test_change_succeeds_and_is_announced_though_it_cannot_be_read_again(records):
    records.registry.answers = 1  # of the check whether the host is known
    assert records.kept.force_down("cn1", True).forced_down
    assert (records.changes, records.wakes, records.view.shown) == (1, 1, frozenset())

    assert records.kept.records.turn().at_most == RETRY
    assert records.reports.parts[SERVICES] == ("warn", "it is away")
    records.registry.answers = 1
    assert records.kept.records.turn().at_most == INTERVAL
    assert records.view.shown == {"cn1"}
