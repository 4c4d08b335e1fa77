"""The services of a scheduler: the database first, then the view."""

import pytest

from rtagent.errors import StoreUnavailable
from rtagent.scheduler.errors import HostNotFound
from rtagent.service.kept_records import INTERVAL, RETRY, SERVICES, KeptServices
from rtagent.testing.memory_store import MemoryServiceRegistry
from tests.support.trackers import Reports


class Registry(MemoryServiceRegistry):
    """:ivar answers: how many reads succeed before the database is away."""

    answers = 1000

    def services(self):
        if self.answers == 0:
            raise StoreUnavailable("it is away")
        self.answers -= 1
        return super().services()


class View:
    """:ivar shown: the hosts that the view has as forced down. :ivar released: no longer."""

    shown = released = frozenset()

    def set_forced_down(self, hosts, released=()):
        self.shown, self.released = frozenset(hosts), frozenset(released)

    def knows(self, host):
        return host == "cn1"


class World:
    def __init__(self):
        self.registry, self.view, self.reports = Registry(), View(), Reports()
        self.changes = self.wakes = 0
        self.kept = KeptServices(self.registry, self.view, self._changed, self._wake, self.reports)

    def _changed(self):
        self.changes += 1

    def _wake(self):
        self.wakes += 1


@pytest.fixture
def world():
    return World()


def test_forced_down_host_is_in_the_view_and_announced_when_the_call_returns(world):
    assert world.kept.force_down("cn1", True).forced_down
    assert world.kept.get("cn1").forced_down
    assert (world.view.shown, world.changes) == ({"cn1"}, 1)
    assert world.view.released == frozenset()
    assert not world.kept.force_down("cn1", False).forced_down
    assert (world.view.shown, world.changes) == (frozenset(), 2)
    assert world.view.released == {"cn1"}


def test_change_succeeds_and_is_announced_though_it_cannot_be_read_again(world):
    world.registry.answers = 1  # of the check whether the host is known
    assert world.kept.force_down("cn1", True).forced_down
    assert (world.changes, world.wakes, world.view.shown) == (1, 1, frozenset())

    assert world.kept.records.turn().at_most == RETRY
    assert world.reports.parts[SERVICES] == ("warn", "it is away")
    world.registry.answers = 1
    assert world.kept.records.turn().at_most == INTERVAL
    assert world.view.shown == {"cn1"}


def test_unknown_host_is_refused_and_not_announced(world):
    with pytest.raises(HostNotFound):
        world.kept.force_down("cn2", True)
    assert (world.changes, world.registry.services()) == (0, [])
