"""The number of messages that wait or are served is bounded."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from queue import Queue
from types import SimpleNamespace
from typing import Any

import pytest

from rtagent.embedded import SystemClock
from rtagent.ports import NullReporter
from rtagent.rpc.incoming import MAX_MESSAGES, Incoming, LateReplies, Workers


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


def test_the_dispatcher_gets_no_timeout_for_which_it_would_start_a_thread(workers: Workers):
    got = Queue[list[Incoming]]()
    workers.submit(got.put, [Sent().message()])
    (incoming,) = got.get(timeout=30)
    assert (incoming.client_timeout, incoming.caller_timeout) == (None, 7)
