"""The threads that serve the requests of the read API."""

import threading

import pytest

from rtagent.api.connections import RequestWorkers
from tests.servers.daemon import wait_until

#: Seconds; nothing in these tests takes that long.
PATIENCE = 120.0


class Request:
    """A task that lasts until a test ends it."""

    def __init__(self) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()

    def service(self) -> None:
        self.began.set()
        assert self.may_end.wait(PATIENCE)

    def cancel(self) -> None:
        self.may_end.set()


@pytest.fixture
def workers():
    made = RequestWorkers(2)
    yield made
    made.shutdown()


def test_a_thread_is_started_only_for_a_request_that_finds_none_idle(workers):
    requests = [Request() for _ in range(4)]
    assert not workers.threads
    workers.add_task(requests[0])
    assert requests[0].began.wait(PATIENCE)
    requests[0].may_end.set()
    wait_until(lambda: workers.active_count == 0)
    workers.add_task(requests[1])
    assert requests[1].began.wait(PATIENCE)
    assert len(workers.threads) == 1

    workers.add_task(requests[2])
    assert requests[2].began.wait(PATIENCE)
    workers.add_task(requests[3])

    assert len(workers.threads) == 2
    assert not requests[3].began.is_set()
    requests[1].may_end.set()
    assert requests[3].began.wait(PATIENCE)
    for request in requests:
        request.may_end.set()
