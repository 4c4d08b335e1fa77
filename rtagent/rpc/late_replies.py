"""Replies, sent without occupying a thread for a caller whose queue is missing.

oslo.messaging's own `reply` occupies its thread while a reply queue is missing, for
``kombu_missing_consumer_retry_timeout`` seconds, and then refuses that queue for a minute. A queue
is missing for good if its caller has ended, and for a moment while its caller reconnects after a
restart of the broker. So a reply is tried once; the few that fail are repeated here, by one thread.

This module uses what oslo.messaging declares as private: there is no other way to try once.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, NamedTuple
from uuid import uuid4

import msgspec
import oslo_messaging
from oslo_messaging._drivers.amqp import UNIQUE_ID, AMQPDestinationNotFound
from oslo_messaging._drivers.amqpdriver import AMQPIncomingMessage
from oslo_messaging._drivers.common import (
    _MESSAGE_KEY,
    _RPC_ENVELOPE_VERSION,
    _VERSION_KEY,
    PURPOSE_SEND,
)

from rtagent.ports import Clock, Reporter
from rtagent.rpc.encoded import EncodedReply

#: Seconds for which a reply is repeated. A caller reconnects within them.
PATIENCE = 10.0
#: Seconds between two rounds of attempts.
INTERVAL = 1.0
#: The number of replies that wait at the same time; another one is given up at once.
MAX_WAITING = 64

GIVEN_UP = (
    "a reply was given up, because the queue of its caller does not exist or takes no message; the "
    "caller has ended, or was not connected to the broker for a while"
)


class _Late(NamedTuple):
    incoming: Any
    reply: Any
    failure: Any
    deadline: float


class LateReplies:
    """Sends replies, and repeats those that fail from one thread. Thread-safe."""

    def __init__(self, clock: Clock, reporter: Reporter) -> None:
        self._clock, self._reporter = clock, reporter.named(__name__)
        self._waiting: deque[_Late] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def send(self, incoming: Any, reply: Any, failure: Any) -> None:
        """Send the reply, or the failure, of a call; see `oslo_messaging`'s incoming messages."""
        if not isinstance(incoming, AMQPIncomingMessage):
            incoming.reply(_primitives(reply), failure)
        elif incoming.orig_msg_id:  # a caller waits for it
            late = _Late(incoming, reply, failure, self._clock.monotonic() + PATIENCE)
            if not _delivered(late) and not self._postponed(late):
                self._give_up()

    def stop(self) -> None:
        """Try to send the replies that wait once more, for `PATIENCE` at most, and give up those
        that fail.
        """
        with self._changed:
            self._stopped, thread = True, self._thread
            self._changed.notify()
        if thread is not None:
            thread.join(PATIENCE)

    def _postponed(self, late: _Late) -> bool:
        with self._changed:
            if self._stopped or len(self._waiting) >= MAX_WAITING:
                return False
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="rpc-replies", daemon=True)
                thread.start()
                self._thread = (
                    thread  # only now: the next reply tries again if it cannot be started
                )
            self._waiting.append(late)
            self._changed.notify()
        return True

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stopped)
                self._changed.wait_for(lambda: self._stopped, INTERVAL)
                last, round_ = self._stopped, len(self._waiting)
            for _ in range(round_):
                self._repeat()
            if last:
                return

    def _repeat(self) -> None:
        with self._changed:
            if not self._waiting:
                return
            late = self._waiting.popleft()
        try:
            delivered = _delivered(late)
        except Exception as error:  # of the broker, while it stops; this thread goes on
            self._reporter.log("warning", f"a late reply failed: {type(error).__name__}")
            delivered = False
        if delivered:
            return
        if self._clock.monotonic() >= late.deadline or not self._postponed(late):
            self._give_up()

    def _give_up(self) -> None:
        self._reporter.counted("rpc_given_up", "undeliverable")
        self._reporter.log("warning", GIVEN_UP)


def _delivered(late: _Late) -> bool:
    """Whether the broker has put the reply into the queue of its caller."""
    driver = late.incoming.listener.driver
    try:
        with driver._get_connection(PURPOSE_SEND) as connection:
            if isinstance(late.reply, EncodedReply):
                connection.direct_send(late.incoming.reply_q, _message(late.incoming, late.reply))
            else:
                late.incoming._send_reply(connection, late.reply, late.failure)
    except (oslo_messaging.MessageUndeliverable, AMQPDestinationNotFound):
        return False
    return True


def _message(incoming: Any, reply: EncodedReply) -> dict[str, str]:
    """Return what oslo.messaging's own `_send_reply` sends, with the JSON of the reply in it."""
    content = {
        "result": reply.json,
        "failure": None,
        "ending": True,
        "_msg_id": incoming.msg_id,
        UNIQUE_ID: uuid4().hex,
    }
    text = msgspec.json.encode(content).decode()
    return {_VERSION_KEY: _RPC_ENVELOPE_VERSION, _MESSAGE_KEY: text}


def _primitives(reply: Any) -> Any:
    return reply.primitives() if isinstance(reply, EncodedReply) else reply
