"""The aggregates of a scheduler: the database first, then the view."""

import pytest
from msgspec.structs import replace

from rtagent.db import migrate
from rtagent.db.aggregate_rows import AggregateStore
from rtagent.db.engine import open_engine
from rtagent.errors import StoreUnavailable
from rtagent.scheduler.errors import AggregateNotFound
from rtagent.service.kept_records import AGGREGATES, INTERVAL, RETRY, KeptAggregates
from tests.support.hosts import ManualClock, uid
from tests.support.trackers import Reports


class Store(AggregateStore):
    """A store that fails while `down`."""

    down = False

    def list(self):
        if self.down:
            raise StoreUnavailable("it is away")
        return super().list()


class View:
    """:ivar shown: what the view has, after each change."""

    def __init__(self):
        self.shown = []

    def set_aggregates(self, aggregates):
        self.shown.append(tuple(aggregates))


class World:
    def __init__(self, url):
        engine = open_engine(url, 30)
        migrate.ready(engine)
        self.store, self.view, self.reports = Store(engine), View(), Reports()
        self.changes = self.wakes = 0
        clock = ManualClock()
        self.kept = KeptAggregates(
            self.store, self.view, self._changed, self._wake, clock, self.reports
        )
        self.other = AggregateStore(engine)

    def _changed(self):
        self.changes += 1

    def _wake(self):
        self.wakes += 1


@pytest.fixture
def world(tmp_path):
    return World(f"sqlite:///{tmp_path}/scheduler.sqlite")


def test_change_is_in_the_view_and_announced_when_the_call_returns(world):
    made = world.kept.create("fast", {"ssd": "true"}, uid())
    world.kept.add_host("fast", "cn1")
    assert world.view.shown == [(made,), (replace(made, hosts=("cn1",)),)]
    assert world.kept.known == world.kept.list() == world.view.shown[-1]
    assert world.changes == 2


def test_refused_change_is_not_announced(world):
    with pytest.raises(AggregateNotFound):
        world.kept.remove_host("none", "cn1")
    assert (world.changes, world.view.shown) == (0, [])


def test_change_by_another_scheduler_is_read_at_the_next_turn(world):
    made = world.other.create("fast", {}, uid())
    world.kept.reread()
    assert world.wakes == 1
    assert world.kept.records.turn().at_most == INTERVAL
    assert world.view.shown == [(made,)]


def test_view_stays_while_the_database_is_away(world):
    made = world.kept.create("fast", {}, uid())
    world.store.down = True
    assert world.kept.records.turn().at_most == RETRY
    assert world.reports.parts[AGGREGATES] == ("warn", "it is away")
    assert world.kept.known == (made,)

    world.kept.set("fast", {"ssd": "true"})  # the change was made; it is read later
    assert (world.changes, world.wakes, world.view.shown) == (2, 1, [(made,)])
    world.store.down = False
    world.kept.records.turn()
    assert world.reports.parts[AGGREGATES][0] == "pass"
    assert world.kept.known[0].metadata == {"ssd": "true"}
