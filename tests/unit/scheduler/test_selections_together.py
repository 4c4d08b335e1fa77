"""Selections that share one answer of Placement decide as they do one after the other."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from rtagent.errors import RtAgentError
from rtagent.placement.shared_requests import SharedRequests
from rtagent.scheduler.errors import NoValidHost
from tests.servers.daemon import PATIENCE, wait_until
from tests.support.hosts import uid
from tests.support.scheduling import spec
from tests.unit.scheduler.test_select_in_large_fleets import Fleet, QueriedPlacement


def large(**fields):
    """Make a request of which a host takes few."""
    return spec(memory_mb=4096, **fields)


class SharedPlacement(QueriedPlacement):
    """Placement behind `SharedRequests`. The first answer comes when the test says so.

    :ivar asked: the first query was sent.
    """

    def __init__(self, having):
        super().__init__(having)
        self.shared = SharedRequests[Any, Any, Any]("GET", self._ask, 4, PATIENCE)
        self.asked, self.answered = threading.Event(), threading.Event()

    def allocation_candidates(self, query, timeout):
        return self.shared.answer(query, query, timeout)

    def _ask(self, queries):
        self.asked.set()
        assert self.answered.wait(PATIENCE)
        with super().allocation_candidates(queries[0], 0) as found:
            return found


class SmallFleet(Fleet):
    """Three hosts, and one scheduler."""

    placement: SharedPlacement

    def __init__(self):
        super().__init__(3)
        self.placement = SharedPlacement(self.uuids)
        self.selecting = self.scheduler()

    def outcome(self, wanted):
        """Select a host for one instance; return its number, or the type of the error."""
        try:
            [found] = self.selecting.select_destinations(wanted, [uid()])
        except RtAgentError as error:
            return type(error)
        return self.uuids.index(found.selected.provider_uuid)

    def together(self, *specs, meanwhile: Callable[[], object] = lambda: None):
        """Return the outcomes of calls of which all but the first share the second query.

        :param meanwhile: happens after the first call, before the others.
        """
        with ThreadPoolExecutor(len(specs)) as threads:
            calls = [threads.submit(self.outcome, specs[0])]
            assert self.placement.asked.wait(PATIENCE)
            meanwhile()
            calls += [threads.submit(self.outcome, each) for each in specs[1:]]
            wait_until(lambda: self.placement.shared.waiting == len(specs) - 1)
            meanwhile()
            self.placement.answered.set()
            found = [call.result(PATIENCE) for call in calls]
        assert len(self.placement.queries) == 2
        return found

    def check(self, selected):
        """Check that the selections, and nothing else, are assumed and allocated."""
        numbers = Counter(each for each in selected if isinstance(each, int))
        assert Counter(map(self.uuids.index, self.placement.written)) == numbers
        nodes = (claim.node_uuid for claim in self.hosts.assumed.values())
        assert Counter(map(self.uuids.index, nodes)) == numbers


@pytest.fixture
def fleet():
    return SmallFleet()


def test_a_fleet_is_filled_by_selections_at_the_same_time_as_by_single_ones(fleet):
    alone = SmallFleet()
    alone.placement.answered.set()
    wanted = [large() for _ in range(12)]
    singly = [alone.outcome(each) for each in wanted]
    together = fleet.together(*wanted)
    assert Counter(together) == Counter(singly)
    assert NoValidHost in together
    fleet.check(together)
