"""Calls that may hang."""

import itertools
import threading

import pytest

from rtagent.virt.libvirt.workers import CallWorkers, LateCall
from tests.support.interpreter import no_threads

SOON = 0.25  # seconds: short for what hangs until it is released
LONG = 60.0  # seconds: never waited for


def never(item):
    raise AssertionError(f"{item} hangs")


def test_results_are_in_order_and_each_batch_has_one_thread():
    here = threading.get_ident()
    threads = CallWorkers(LONG).each(lambda item: (item, threading.get_ident()), [3, 1, 2], never)
    assert [item for item, _ in threads] == [3, 1, 2]
    assert len({thread for _, thread in threads} - {here}) == 1


def test_no_items_need_no_thread():
    assert CallWorkers(LONG, limit=0).each(lambda item: item, [], never) == []


def test_a_hanging_call_affects_only_its_item(release):
    workers = CallWorkers(4.0)  # the others must return in time, on a machine that is busy

    def call(item):
        return release.wait() if item == "stuck" else f"did {item}"

    items = ["a", "stuck", "b", "c"]
    assert workers.each(call, items, lambda item: f"left {item}") == [
        "did a",
        "left stuck",
        "did b",
        "did c",
    ]
    assert workers.stuck == 1


def test_a_single_call_that_hangs_is_an_error(release):
    with pytest.raises(TimeoutError, match=r"within 0\.25 s"):
        CallWorkers(SOON).call(release.wait)


def test_a_thread_that_returns_late_is_no_longer_stuck(release):
    workers = CallWorkers(SOON)
    returned = threading.Event()

    def call():
        release.wait()
        returned.set()

    with pytest.raises(TimeoutError):
        workers.call(call)
    release.set()
    returned.wait()
    while workers.stuck:  # the thread has only to end
        threading.Event().wait(0.001)


def test_settled_once_no_call_hangs(release):
    workers = CallWorkers(SOON)
    assert workers.settle(SOON)
    with pytest.raises(TimeoutError):
        workers.call(release.wait)
    assert not workers.settle(SOON)
    release.set()
    assert workers.settle(LONG)


def test_no_call_is_made_beyond_the_limit(release):
    workers = CallWorkers(SOON, limit=1)
    with pytest.raises(TimeoutError):
        workers.call(release.wait)
    attempts = []

    with pytest.raises(TimeoutError, match="1 earlier call"):
        workers.call(lambda: attempts.append("made"))

    assert attempts == []


def test_an_error_is_raised_to_the_caller_and_ends_the_batch():
    seen = []

    def call(item):
        seen.append(item)
        return 1 // item

    with pytest.raises(ZeroDivisionError):
        CallWorkers(LONG).each(call, [1, 0, 2], never)
    assert seen == [1, 0]


def test_an_error_about_a_hung_call_ends_the_batch(release):
    def hung(item):
        raise LookupError(item)

    with pytest.raises(LookupError):
        CallWorkers(SOON).each(lambda item: release.wait(), ["a", "b"], hung)


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


def test_late_result_is_returned_to_the_next_caller(slow):
    call = LateCall(SOON)
    for _ in range(3):
        with pytest.raises(TimeoutError, match=r"no answer within 0\.25 s; the call goes on"):
            call.get(slow)
    assert slow.begun == 1

    slow.release.set()

    assert until_it_returns(call, slow) == 1
    assert until_it_returns(call, slow) == 2


def test_caller_who_waits_gets_the_result_of_the_call_that_is_under_way(slow):
    call = LateCall(SOON)
    with pytest.raises(TimeoutError):
        call.get(slow)
    threading.Timer(2 * SOON, slow.release.set).start()

    assert until_it_returns(call, slow) == 1


def test_error_is_raised_to_the_caller_who_waits():
    def fail():
        raise LookupError("no")

    call = LateCall(LONG)
    with pytest.raises(LookupError, match="no"):
        call.get(fail)
    assert call.get(lambda: "again") == "again"


def test_late_error_is_dropped_and_the_call_is_repeated():
    release, ended = threading.Event(), threading.Event()

    def fail():
        release.wait()
        ended.set()
        raise LookupError("late")

    call = LateCall(SOON)
    with pytest.raises(TimeoutError):
        call.get(fail)
    release.set()
    ended.wait()

    assert until_it_returns(call, lambda: "again", but=LookupError) == "again"


def test_another_call_is_started_beside_one_that_hangs(slow):
    call = LateCall(SOON, again=0.0)
    with pytest.raises(TimeoutError):
        call.get(slow)

    assert until_it_returns(call, lambda: "second") == "second"


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


def until_it_returns(call, function, but=TimeoutError):
    """Repeat the call until a result comes in time."""
    while True:
        try:
            return call.get(function)
        except (TimeoutError, but):
            continue


def test_a_thread_that_cannot_be_started_is_not_under_way():
    call = LateCall[str](LONG)
    with no_threads(), pytest.raises(RuntimeError):
        call.get(lambda: "lost")
    assert call.get(lambda: "answer") == "answer"
