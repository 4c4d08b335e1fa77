"""Messages between oslo.messaging's driver and its server: their number, and their replies.

oslo.messaging's own `reply` occupies its thread while a reply queue is missing, for
``kombu_missing_consumer_retry_timeout`` seconds, and then refuses that queue for a minute. A queue
is missing for good if its caller has ended, and for a moment while its caller reconnects after a
restart of the broker. So a reply is tried once; the few that fail are repeated here, by one thread.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

from rtagent.ports import Clock, Reporter
from rtagent.rpc.context import REPLY_QUEUE
from rtagent.rpc.driver import send_reply

#: Seconds for which a reply is repeated. A caller reconnects within them.
REPLY_PATIENCE = 10.0
#: The shortest and the longest call-monitor timeout, in seconds; any other is ignored.
TIMEOUTS = (2.0, 86_400.0)
#: Seconds between two checks of which keep-alive messages are due.
MONITOR_INTERVAL = 0.5
#: Seconds between two rounds of attempts.
INTERVAL = 1.0
#: The number of replies that wait at the same time; another one is given up at once.
MAX_WAITING = 64
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
#: The count of messages that were not dispatched, and its label for too many at the same time.
REFUSED, OVERLOAD = "rpc_refused", "overload"

GIVEN_UP = (
    "a reply was given up, because the queue of its caller does not exist or takes no message; the "
    "caller has ended, or was not connected to the broker for a while"
)


class _Late(NamedTuple):
    incoming: Any
    reply: Any
    failure: Any
    deadline: float

    def sent(self) -> bool:
        return send_reply(self.incoming, self.reply, self.failure)


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
        if not getattr(incoming, "reply_q", None):  # a cast, or not from RabbitMQ
            incoming.reply(reply, failure)
            return
        late = _Late(incoming, reply, failure, self._clock.monotonic() + REPLY_PATIENCE)
        if not late.sent() and not self._postponed(late):
            self._give_up()

    def stop(self) -> None:
        """Try once more to send the replies that wait, for `REPLY_PATIENCE` at most, and give up
        those that fail.
        """
        with self._changed:
            self._stopped, thread = True, self._thread
            self._changed.notify()
        if thread is not None:
            thread.join(REPLY_PATIENCE)

    def _postponed(self, late: _Late) -> bool:
        with self._changed:
            if self._stopped or len(self._waiting) >= MAX_WAITING:
                return False
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="rpc-replies", daemon=True)
                thread.start()
                self._thread = thread  # only now: the next reply tries again if it fails
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
            delivered = late.sent()
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


class Workers(ThreadPoolExecutor):
    """The threads that serve messages, with `Incoming` in place of the driver's messages.

    oslo.messaging's own executor starts a thread while others are idle, and keeps any number of
    messages.
    """

    def __init__(self, max_workers: int, replies: LateReplies, reporter: Reporter) -> None:
        super().__init__(max_workers)
        self._replies, self._reporter = replies, reporter.named(__name__)
        self._places = threading.BoundedSemaphore(MAX_MESSAGES)

    def submit(  # type: ignore[override]
        self, process: Callable[[list[Incoming]], None], messages: list[Any]
    ) -> None:
        """Have `process` called with each message, in a list of one; wait for a place first."""
        for message in messages:
            if self._places.acquire(timeout=PATIENCE):
                incoming = Incoming(message, self._replies, self._places.release)
                super().submit(process, [incoming])
            else:
                self._reporter.counted(REFUSED, OVERLOAD)
                self._reporter.log("error", DROPPED)


class CallMonitor:
    """Sends keep-alive messages to the callers of slow calls, from one thread. Thread-safe.

    A caller may ask for them by oslo.messaging's ``call_monitor_timeout``. oslo.messaging's
    dispatcher starts a thread for each such call, before it knows the method, and leaves it running
    if there is no such method.
    """

    def __init__(self, clock: Clock, reporter: Reporter) -> None:
        self._clock, self._reporter = clock, reporter.named(__name__)
        # By message: the interval of its keep-alive messages, and when the next is due.
        self._calls: dict[Any, tuple[float, float]] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watch(self, incoming: Any, timeout: object) -> Iterator[None]:
        """Send keep-alive messages to the caller of `incoming` during the block.

        :param timeout: seconds for which the caller waits for one; not a valid number: none.
        """
        interval = _interval(timeout)
        if interval is None:
            yield
            return
        with self._changed:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="rpc-monitor", daemon=True)
                thread.start()
                self._thread = thread  # only now: the next call tries again if it cannot be started
            self._calls[incoming] = interval, self._clock.monotonic() + interval
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._calls.pop(incoming, None)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._calls)
                now = self._clock.monotonic()
                due = [call for call, (_, at) in self._calls.items() if at <= now]
                for call in due:
                    interval, _ = self._calls[call]
                    self._calls[call] = interval, now + interval
            for call in due:
                self._send(call)
            with self._changed:
                self._changed.wait(MONITOR_INTERVAL)

    def _send(self, incoming: Any) -> None:
        try:
            incoming.heartbeat()
        except Exception as error:  # the caller has gone, or the broker: its call ends as usual
            sentence = f"a keep-alive message could not be sent to a caller: {type(error).__name__}"
            self._reporter.log("warning", sentence)
            with self._changed:
                self._calls.pop(incoming, None)


def _interval(timeout: object) -> float | None:
    """Return the seconds between two keep-alive messages; None: send none."""
    shortest, longest = TIMEOUTS
    if isinstance(timeout, int | float) and shortest <= timeout <= longest:
        return timeout / 2
    return None
