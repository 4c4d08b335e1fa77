"""The number of messages that wait or are served is bounded."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from rtagent.embedded import SystemClock
from rtagent.ports import NullReporter
from rtagent.rpc.incoming import MAX_MESSAGES, Incoming, IncomingListener
from rtagent.rpc.late_replies import LateReplies


class Driver:
    """A driver's listener. :ivar deliver: gives it messages. :ivar replies: that were sent."""

    deliver: Callable[[list[Any]], None]

    def __init__(self) -> None:
        self.replies: list[Any] = []

    def start(self, on_incoming: Callable[[list[Any]], None]) -> None:
        self.deliver = on_incoming

    def message(self) -> Any:
        return SimpleNamespace(
            ctxt={},
            message={"method": "ping"},
            msg_id="m",
            client_timeout=7,
            reply=lambda reply, failure: self.replies.append((reply, failure)),
        )


def test_the_broker_keeps_what_exceeds_the_bound():
    driver, got = Driver(), list[Incoming]()
    replies = LateReplies(SystemClock(), NullReporter())
    IncomingListener(driver, replies, NullReporter()).start(got.extend)
    for _ in range(MAX_MESSAGES):
        driver.deliver([driver.message()])
    assert len(got) == MAX_MESSAGES
    one_more = threading.Thread(target=driver.deliver, args=([driver.message()],))
    one_more.start()
    one_more.join(0.2)
    assert one_more.is_alive()
    got[0].reply("pong")
    one_more.join(30)
    assert len(got) == MAX_MESSAGES + 1
    assert driver.replies == [("pong", None)]


def test_the_dispatcher_gets_no_timeout_for_which_it_would_start_a_thread():
    driver, got = Driver(), list[Incoming]()
    replies = LateReplies(SystemClock(), NullReporter())
    IncomingListener(driver, replies, NullReporter()).start(got.extend)
    driver.deliver([driver.message()])
    assert (got[0].client_timeout, got[0].caller_timeout) == (None, 7)
