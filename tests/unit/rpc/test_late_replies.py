"""Replies whose queue is missing for a moment."""

from contextlib import contextmanager

import oslo_messaging
import pytest

from rtagent.embedded import SystemClock
from rtagent.rpc.incoming import GIVEN_UP, LateReplies
from tests.support.interpreter import no_threads
from tests.support.trackers import Reports


class Caller:
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
    notes, back, gone = Reports(), Caller(), Caller()
    replies = LateReplies(SystemClock(), notes)
    for caller in (back, gone):
        replies.send(caller, "granted", None)
    back.connected = True
    replies.stop()
    assert (back.replies, gone.replies) == (["granted"], [])
    assert [line for _, line in notes.logged] == [GIVEN_UP]


def test_after_a_stop_a_reply_is_tried_once():
    notes, gone = Reports(), Caller()
    replies = LateReplies(SystemClock(), notes)
    replies.stop()
    replies.send(gone, "granted", None)
    assert [line for _, line in notes.logged] == [GIVEN_UP]


def test_replies_wait_again_when_a_thread_can_be_started():
    caller, replies = Caller(), LateReplies(SystemClock(), Reports())
    with no_threads(), pytest.raises(RuntimeError):
        replies.send(caller, "lost", None)
    replies.send(caller, "granted", None)
    caller.connected = True
    replies.stop()
    assert caller.replies == ["granted"]
