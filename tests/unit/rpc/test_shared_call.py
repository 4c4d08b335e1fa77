"""Callers that wait at the same time share a run."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rtagent.rpc.served_agent import SharedCall

PATIENCE = 60.0


class Runs:
    """Numbered runs, each of which waits for the test.

    :ivar began: released at the start of each run. :ivar go: a permission for one run to end.
    """

    def __init__(self) -> None:
        self.began, self.go = threading.Semaphore(0), threading.Semaphore(0)
        self.number = 0
        self.error: Exception | None = None
        self.shared = SharedCall("run", self._run)

    def _run(self) -> int:
        self.number += 1
        number = self.number
        self.began.release()
        assert self.go.acquire(timeout=PATIENCE)
        if self.error is not None:
            raise self.error
        return number

    def wait_begun(self) -> None:
        assert self.began.acquire(timeout=PATIENCE)

    def join(self) -> None:
        """Call without patience: the caller has joined a run when it gives up."""
        with pytest.raises(TimeoutError):
            self.shared.result(0)


def test_each_call_after_another_has_a_run_of_its_own():
    runs = Runs()
    for number in (1, 2, 3):
        runs.go.release()
        assert runs.shared.result(PATIENCE) == number


def test_two_hundred_callers_cause_two_runs():
    runs = Runs()
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(runs.shared.result, PATIENCE)
        runs.wait_begun()
        for _ in range(199):
            runs.join()
        assert runs.number == 1
        runs.go.release(2)
        assert first.result() == 1
        runs.wait_begun()
        # No caller waits for a third run: this call is the first one that causes it.
        runs.go.release()
        assert runs.shared.result(PATIENCE) == 3


def test_a_caller_never_gets_the_result_of_a_run_that_began_before_it_called():
    runs = Runs()
    runs.join()
    runs.wait_begun()
    runs.go.release(2)
    assert runs.shared.result(PATIENCE) == 2


def test_an_error_reaches_those_who_share_the_run_and_not_the_next_ones():
    runs = Runs()
    runs.join()
    runs.wait_begun()
    with ThreadPoolExecutor(2) as threads:
        runs.error = KeyError("a defect")
        others = [threads.submit(runs.shared.result, PATIENCE) for _ in range(2)]
        runs.go.release(3)
        for other in others:
            with pytest.raises(KeyError):
                other.result()
    runs.error = None
    runs.go.release(3)
    assert runs.shared.result(PATIENCE) > 1
