"""Requests to Placement: few at the same time, and shared by the calls that wait."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any

import pytest

from rtagent.errors import PlacementError, PlacementUnavailable
from rtagent.placement.shared_requests import SharedRequests
from rtagent.scheduler.ports import Candidates
from tests.servers.daemon import PATIENCE, wait_until

SMALL, LARGE = (("resources", "VCPU:1"),), (("resources", "VCPU:8"),)


class SlowPlacement:
    """Placement, which answers when the test says so.

    :ivar asked: the queries, and their answers to come.
    :ivar used: is set when calls may end that use an answer.
    """

    def __init__(self, at_once: int, hold: float = PATIENCE):
        self.asked: list[tuple[object, Future[Candidates]]] = []
        self.queries = SharedRequests[Any, Any, Candidates]("GET", self._ask, at_once, hold)
        self.used = threading.Event()
        self.used.set()
        self._pool = ThreadPoolExecutor(8)

    def _ask(self, contents):
        answer: Future[Candidates] = Future()
        self.asked.append((contents[0], answer))
        return answer.result(PATIENCE)

    def _call(self, query, timeout):
        with self.queries.answer(query, query, timeout) as found:
            assert self.used.wait(PATIENCE)
            return found

    def call(self, query, timeout=PATIENCE):
        """Ask on a thread of its own, and return when it is sent or waits."""
        before = len(self.asked) + self.queries.waiting
        future = self._pool.submit(self._call, query, timeout)
        wait_until(lambda: len(self.asked) + self.queries.waiting > before or future.done())
        return future

    def answer(self, number):
        """Answer a query, the first of which is 0."""
        wait_until(lambda: len(self.asked) > number)
        found = Candidates(version=str(number))
        self.asked[number][1].set_result(found)
        return found

    def close(self):
        """Answer what is still asked, and end the threads."""
        self.used.set()
        for _, answer in self.asked:
            if not answer.done():
                answer.set_result(Candidates())
        self._pool.shutdown(cancel_futures=True)

    @property
    def sent(self):
        return [query for query, _ in self.asked]


@pytest.fixture
def make():
    with ExitStack() as stack:
        yield lambda *arguments: stack.enter_context(closing(SlowPlacement(*arguments)))


@pytest.fixture
def placement(make):
    return make(1)


def test_calls_wait_while_the_answer_of_an_equal_query_is_used_and_share_the_next_one(make):
    placement = make(4)
    placement.used.clear()
    first = placement.call(SMALL)
    placement.answer(0)
    waiting = [placement.call(SMALL) for _ in range(3)]
    placement.call(LARGE)
    assert placement.sent == [SMALL, LARGE]
    placement.used.set()
    found = placement.answer(2)
    assert [each.result(PATIENCE) for each in waiting] == [found] * 3
    assert first.done()
    assert placement.sent == [SMALL, LARGE, SMALL]


def test_a_query_without_an_answer_holds_equal_ones_for_a_while_only(make):
    placement = make(2, 0.01)
    lost, other = placement.call(SMALL), placement.call(SMALL)
    found = placement.answer(1)
    assert other.result(PATIENCE) == found
    assert not lost.done()


def test_a_call_waits_no_longer_than_its_time_and_its_query_is_not_sent(placement):
    placement.call(SMALL)
    with pytest.raises(PlacementUnavailable, match="was not sent within 0 s"):
        placement.call(LARGE, 0).result(PATIENCE)
    placement.answer(0)
    later = placement.call(SMALL)
    found = placement.answer(1)
    assert later.result(PATIENCE) == found
    assert placement.sent == [SMALL, SMALL]


def test_an_error_is_that_of_all_calls_of_a_query_and_ends_its_turn(placement):
    placement.call(SMALL)
    waiting = [placement.call(LARGE) for _ in range(2)]
    placement.answer(0)
    wait_until(lambda: len(placement.asked) == 2)
    placement.asked[1][1].set_exception(PlacementError("400"))
    for each in waiting:
        with pytest.raises(PlacementError, match="400"):
            each.result(PATIENCE)
    last = placement.call(LARGE)
    found = placement.answer(2)
    assert last.result(PATIENCE) == found
