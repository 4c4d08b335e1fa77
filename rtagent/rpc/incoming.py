"""Messages between oslo.messaging's driver and its server: their number, and their replies."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from rtagent.ports import Reporter
from rtagent.rpc.context import REPLY_QUEUE
from rtagent.rpc.late_replies import LateReplies

#: The number of messages that wait or are served at the same time. While there are more, the broker
#: keeps them.
MAX_MESSAGES = 256
#: Seconds for which the broker keeps the next message. Then it is dropped, because a connection
#: that is not read for longer is closed.
PATIENCE = 15.0

DROPPED = (
    f"a message was dropped, because {MAX_MESSAGES} calls are being served or wait, and none of "
    f"them has ended within {PATIENCE:g} s"
)


class Incoming:
    """A message of a driver, with the attributes that oslo.messaging's server and dispatcher use.

    :ivar client_timeout: None, so that the dispatcher starts no thread for the call.
    :ivar caller_timeout: seconds for which the caller waits for a keep-alive message.
    """

    client_timeout = None

    def __init__(self, message: Any, replies: LateReplies, end: Callable[[], None]) -> None:
        """:param end: is called when the message has been replied to."""
        self._incoming, self._replies, self._end = message, replies, end
        self.message, self.msg_id = message.message, message.msg_id
        # Also without a reply queue, so that no caller can name one in its context.
        self.ctxt = {**message.ctxt, REPLY_QUEUE: getattr(message, "reply_q", None) or ""}
        self.caller_timeout = message.client_timeout

    def acknowledge(self) -> None:
        self._incoming.acknowledge()

    def heartbeat(self) -> None:
        """Send the caller a keep-alive message."""
        self._incoming.heartbeat()

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        """Send the reply, or the failure."""
        try:
            self._replies.send(self._incoming, reply, failure)
        finally:
            self._end()


#: The count of messages that were not dispatched, and its label for too many at the same time.
REFUSED, OVERLOAD = "rpc_refused", "overload"


class IncomingListener:
    """A driver's listener whose messages are `Incoming`, and whose number is bounded."""

    def __init__(self, listener: Any, replies: LateReplies, reporter: Reporter) -> None:
        self._listener, self._replies = listener, replies
        self._reporter = reporter.named(__name__)
        self._places = threading.BoundedSemaphore(MAX_MESSAGES)

    def start(self, on_incoming: Callable[[list[Incoming]], None]) -> None:
        """Call `on_incoming` with every message, in a list of one."""

        def receive(messages: list[Any]) -> None:
            for message in messages:
                if self._places.acquire(timeout=PATIENCE):
                    on_incoming([Incoming(message, self._replies, self._places.release)])
                else:
                    self._reporter.counted(REFUSED, OVERLOAD)
                    self._reporter.log("error", DROPPED)

        self._listener.start(receive)

    def stop(self) -> None:
        self._listener.stop()

    def cleanup(self) -> None:
        self._listener.cleanup()
