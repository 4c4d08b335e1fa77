"""One thread keeps the callers of slow calls informed."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from rtagent.embedded import SystemClock
from rtagent.ports import NullReporter
from rtagent.rpc.incoming import CallMonitor
from tests.support.interpreter import no_threads


class Caller:
    """Counts the keep-alive messages that it gets. :ivar gone: it takes none."""

    def __init__(self, gone: bool = False) -> None:
        self.gone = gone
        self.tries = threading.Semaphore(0)

    def heartbeat(self) -> None:
        self.tries.release()
        if self.gone:
            raise ConnectionError


@pytest.fixture
def monitor() -> CallMonitor:
    return CallMonitor(SystemClock(), NullReporter())


def test_callers_get_signs_of_life_while_their_calls_last(monitor: CallMonitor):
    callers = [Caller() for _ in range(20)]
    before = threading.active_count()
    with ExitStack() as calls:
        for caller in callers:
            calls.enter_context(monitor.watch(caller, 2))
        assert threading.active_count() == before + 1
        for caller in callers:
            assert all(caller.tries.acquire(timeout=120) for _ in range(2))


def test_a_caller_that_has_gone_is_left_alone(monitor: CallMonitor):
    gone, other = Caller(gone=True), Caller()
    with monitor.watch(gone, 2), monitor.watch(other, 2):
        assert all(other.tries.acquire(timeout=120) for _ in range(3))
        assert gone.tries.acquire(timeout=120)
        assert not gone.tries.acquire(blocking=False)


@pytest.mark.parametrize("timeout", [None, 0, 1, -5, 1e9, float("nan"), "7", [], True])
def test_other_timeouts_are_ignored(monitor: CallMonitor, timeout: object):
    before = threading.active_count()
    with monitor.watch(Caller(), timeout):
        assert threading.active_count() == before


def test_signs_of_life_come_again_when_a_thread_can_be_started(monitor: CallMonitor):
    refused, caller = Caller(), Caller()
    with no_threads(), pytest.raises(RuntimeError), monitor.watch(refused, 2):
        pass
    with monitor.watch(caller, 2):
        assert caller.tries.acquire(timeout=120)
    assert not refused.tries.acquire(blocking=False)
