"""Messages that wait, late replies, and signs of life to waiting callers."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Queue
from types import SimpleNamespace
from typing import Any

import oslo_messaging
import pytest

from rtagent.embedded import SystemClock
from rtagent.ports import NullReporter
from rtagent.rpc.calls import BrokerProbe
from rtagent.rpc.incoming import GIVEN_UP, MAX_MESSAGES, CallMonitor, Incoming, LateReplies, Workers
from tests.support.interpreter import no_threads
from tests.support.trackers import Reports


class Sent:
    """Makes messages of a driver. :ivar replies: that were sent."""

    def __init__(self) -> None:
        self.replies: list[Any] = []

    def message(self) -> Any:
        return SimpleNamespace(
            ctxt={},
            message={"method": "ping"},
            msg_id="m",
            client_timeout=7,
            reply=lambda reply, failure: self.replies.append((reply, failure)),
        )


@pytest.fixture
def workers() -> Iterator[Workers]:
    with Workers(2, LateReplies(SystemClock(), NullReporter()), NullReporter()) as made:
        yield made


def test_the_broker_keeps_what_exceeds_the_bound(workers: Workers):
    sent, got = Sent(), Queue[Incoming]()

    def process(messages: list[Incoming]) -> None:
        for message in messages:
            got.put(message)

    for _ in range(MAX_MESSAGES):
        workers.submit(process, [sent.message()])
    served = [got.get(timeout=30) for _ in range(MAX_MESSAGES)]
    one_more = threading.Thread(target=workers.submit, args=(process, [sent.message()]))
    one_more.start()
    one_more.join(0.2)
    assert one_more.is_alive()
    served[0].reply("pong")
    one_more.join(30)
    assert got.get(timeout=30) is not None
    assert sent.replies == [("pong", None)]


class Unreachable:
    """A call of a caller whose reply queue is missing. :ivar replies: that have arrived."""

    def __init__(self) -> None:
        self.reply_q, self.listener = "reply_q", self
        self.driver, self.connected, self.replies = self, False, []

    @contextmanager
    def _get_connection(self):
        yield self

    def _send_reply(self, conn, reply=None, failure=None, ending=True):
        if not self.connected:
            raise oslo_messaging.MessageUndeliverable(None, "", "", None)
        self.replies.append(reply)


def test_a_stop_tries_once_more_to_send_the_replies_that_wait():
    notes, back, gone = Reports(), Unreachable(), Unreachable()
    replies = LateReplies(SystemClock(), notes)
    for caller in (back, gone):
        replies.send(caller, "granted", None)
    back.connected = True
    replies.stop()
    assert (back.replies, gone.replies) == (["granted"], [])
    assert [line for _, line in notes.logged] == [GIVEN_UP]


def test_after_a_stop_a_reply_is_tried_once():
    notes, gone = Reports(), Unreachable()
    replies = LateReplies(SystemClock(), notes)
    replies.stop()
    replies.send(gone, "granted", None)
    assert [line for _, line in notes.logged] == [GIVEN_UP]


def test_replies_wait_again_when_a_thread_can_be_started():
    caller, replies = Unreachable(), LateReplies(SystemClock(), Reports())
    with no_threads(), pytest.raises(RuntimeError):
        replies.send(caller, "lost", None)
    replies.send(caller, "granted", None)
    caller.connected = True
    replies.stop()
    assert caller.replies == ["granted"]


class Monitored:
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


def test_a_caller_that_has_gone_is_left_alone(monitor: CallMonitor):
    gone, other = Monitored(gone=True), Monitored()
    before = threading.active_count()
    with monitor.watch(gone, 2), monitor.watch(other, 2):
        assert threading.active_count() == before + 1
        assert all(other.tries.acquire(timeout=120) for _ in range(3))
        assert gone.tries.acquire(timeout=120)
        assert not gone.tries.acquire(blocking=False)


@pytest.mark.parametrize("timeout", [None, 0, 1, -5, 1e9, float("nan"), "7", [], True])
def test_other_timeouts_are_ignored(monitor: CallMonitor, timeout: object):
    before = threading.active_count()
    with monitor.watch(Monitored(), timeout):
        assert threading.active_count() == before


def test_signs_of_life_come_again_when_a_thread_can_be_started(monitor: CallMonitor):
    refused, caller = Monitored(), Monitored()
    with no_threads(), pytest.raises(RuntimeError), monitor.watch(refused, 2):
        pass
    with monitor.watch(caller, 2):
        assert caller.tries.acquire(timeout=120)
    assert not refused.tries.acquire(blocking=False)


def test_the_next_call_probes_the_broker_when_a_thread_can_be_started():
    probe, calls = BrokerProbe(), []
    with no_threads(), pytest.raises(RuntimeError):
        probe.ensure_reached(lambda: calls.append("lost"), 0.1)
    probe.ensure_reached(lambda: calls.append("made"), 60)
    assert calls == ["made"]
