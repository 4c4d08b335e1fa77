"""Calls that may hang."""

import itertools
import threading

import pytest

from rtagent.virt.libvirt.workers import CallWorkers, LateCall
from tests.support.interpreter import no_threads

SOON = 0.25  # seconds: short for what hangs until it is released
LONG = 60.0  # seconds: never waited for


def test_settled_once_no_call_hangs(release):
    workers = CallWorkers(SOON)
    assert workers.settle(SOON)
    with pytest.raises(TimeoutError):
        workers.call(release.wait)
    assert not workers.settle(SOON)
    release.set()
    assert workers.settle(LONG)


def test_settled_once_a_call_without_a_limit_has_returned(release):
    workers, begun, results = CallWorkers(SOON), threading.Event(), []

    def last() -> str:
        begun.set()
        release.wait()
        return "done"

    caller = threading.Thread(target=lambda: results.append(workers.long(last)))
    caller.start()
    begun.wait(LONG)
    assert not workers.settle(2 * SOON)
    assert workers.stuck == 0
    release.set()
    assert workers.settle(LONG)
    caller.join(LONG)
    assert results == ["done"]
    with pytest.raises(ZeroDivisionError):
        workers.long(lambda: 1 // 0)


def test_no_call_is_made_beyond_the_limit(release):
    workers = CallWorkers(SOON, limit=1)
    with pytest.raises(TimeoutError):
        workers.call(release.wait)
    attempts = []

    with pytest.raises(TimeoutError, match="1 earlier call"):
        workers.call(lambda: attempts.append("made"))

    assert attempts == []


class Slow:
    """A call that returns its number, 1, 2, ..., when it is released.

    :ivar begun: how many have begun.
    """

    def __init__(self):
        self.begun, self.release = 0, threading.Event()

    def __call__(self):
        self.begun += 1
        number = self.begun
        self.release.wait()
        return number


@pytest.fixture
def slow():
    made = Slow()
    yield made
    made.release.set()


def test_result_in_time_is_returned():
    numbers = itertools.count(1)
    call = LateCall(LONG)

    assert [call.get(lambda: next(numbers)) for _ in range(3)] == [1, 2, 3]


def test_error_is_raised_to_the_caller_who_waits():
    def fail():
        raise LookupError("no")

    call = LateCall(LONG)
    with pytest.raises(LookupError, match="no"):
        call.get(fail)
    assert call.get(lambda: "again") == "again"


def test_no_call_is_started_beyond_the_limit(slow):
    call = LateCall(SOON, again=0.0, limit=2)
    for _ in range(4):
        with pytest.raises(TimeoutError):
            call.get(slow)

    assert slow.begun == 2


def test_forgotten_result_is_dropped(slow):
    call = LateCall(SOON, limit=2)
    with pytest.raises(TimeoutError):
        call.get(slow)

    call.forget()
    with pytest.raises(TimeoutError):
        call.get(slow)
    call.forget()
    with pytest.raises(TimeoutError, match="2 earlier calls have not returned yet"):
        call.get(slow)
    slow.release.set()

    assert until_it_returns(call, slow) == 3


def until_it_returns(call, function):
    """Repeat the call until a result comes in time."""
    while True:
        try:
            return call.get(function)
        except TimeoutError:
            continue


def test_a_thread_that_cannot_be_started_is_not_under_way():
    call = LateCall[str](LONG)
    with no_threads(), pytest.raises(RuntimeError):
        call.get(lambda: "lost")
    assert call.get(lambda: "answer") == "answer"
