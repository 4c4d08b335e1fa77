"""The connections of oslo.messaging to RabbitMQ, made robust against any message.

oslo.messaging connects by kombu's transport for ``amqp://``. This is that transport, with its
documented extension points: the classes of connections, channels and messages, and py-amqp's frame
handler. The messages of other queues, such as replies, are not checked.
"""

import contextlib
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import amqp
import kombu.transport
import oslo_messaging
from amqp import spec
from amqp.exceptions import MessageNacked
from amqp.protocol import queue_declare_ok_t
from kombu.transport import pyamqp

from rtagent.rpc import AGENT, SCHEDULER
from rtagent.rpc.amqp_frames import harmless_frames
from rtagent.rpc.envelope import MAX_BODY, MAX_REPORT, RefusedMessage, check, check_delivery

#: The queues of requests: of all servers of a topic, of one, and of a call to all at once.
REQUESTS = re.compile(rf"({AGENT}|{SCHEDULER})(\Z|\.|_fanout(?:_|\Z))")
#: The largest message in the queues of each topic, in bytes.
LARGEST = {AGENT: MAX_BODY, SCHEDULER: MAX_REPORT}
#: The queue of all agents, which oslo.messaging reads, too. No call for an agent goes there, and a
#: user who may read it may also delete it.
UNREAD = AGENT
#: The number of message ids that a channel remembers. A client repeats a message whose confirmation
#: was lost, and thousands of others may come before the repetition: a call that was refused could
#: be granted then. oslo.messaging remembers 16.
REMEMBERED = 10_000
#: Seconds to wait for the confirmation that follows a returned message.
CONFIRMATION = 5.0
#: Seconds to wait for any answer of the broker; messages of queues are no answers.
ANSWER = 5.0
#: Seconds in which a frame is read that has arrived.
ARRIVED = 0.01

#: Receives the reason of each refusal.
Listener = Callable[[RefusedMessage], None]

_listeners: list[Listener] = []
_lock = threading.Lock()
#: Why the last attempt of this process to connect has failed; empty: it has not.
_connection_errors: deque[str] = deque(maxlen=1)


def install() -> None:
    """Make this the transport of all later connections of this process."""
    for alias in ("amqp", "pyamqp"):
        kombu.transport.TRANSPORT_ALIASES[alias] = f"{__name__}:Transport"


def installed() -> bool:
    """Whether connections use this transport, and not one that kombu had loaded before."""
    return kombu.transport.get_transport_cls("amqp") is Transport


def connection_error() -> str:
    """Why the last attempt of this process to connect has failed; "": it has succeeded."""
    return next(iter(tuple(_connection_errors)), "")


def subscribe(listener: Listener) -> None:
    """Call `listener` for each message that is refused in this process."""
    with _lock:
        _listeners.append(listener)


def unsubscribe(listener: Listener) -> None:
    """Stop calling `listener`."""
    with _lock:
        if listener in _listeners:
            _listeners.remove(listener)


class Message(pyamqp.Message):
    """A message that can be rejected after its acknowledgement, without an effect.

    oslo.messaging rejects a message whose processing fails, also if it has acknowledged it. The
    error about that would end the connection.
    """

    def reject(self, requeue: bool = False) -> None:
        if not self.acknowledged:
            super().reject(requeue=requeue)  # type: ignore[no-untyped-call]


class _Waiting:
    """Bounds how long an answer of the broker is waited for. For connections and channels.

    A broker whose memory alarm is raised answers nothing, but sends heartbeats. py-amqp would wait
    as long as the alarm lasts, for example to close a channel, and so would the caller of a call.
    """

    connection: Any

    def wait(self, *args: Any, **named: Any) -> Any:
        if self.connection is None:  # that is an error of its own
            return super().wait(*args, **named)  # type: ignore[misc]
        with self.connection.answering_by(time.monotonic() + ANSWER):
            return super().wait(*args, **named)  # type: ignore[misc]


class Channel(_Waiting, pyamqp.Channel):
    """A channel that checks requests before they are parsed.

    :ivar body_limit: the largest body that is received, in bytes; None: no limit.
    """

    Message = Message

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.body_limit: int | None = None
        self._unique_ids: dict[str, None] = {}  # in the order of their arrival
        self._exchanges: dict[str, str] = {}  # by queue

    def queue_declare(self, queue: str = "", *args: Any, **named: Any) -> Any:
        """Declare a queue, but not that of `UNREAD`."""
        if queue == UNREAD:
            return queue_declare_ok_t(queue, 0, 0)
        return super().queue_declare(queue, *args, **named)

    def basic_consume(
        self, queue: str = "", *args: Any, callback: Callable[..., None], **named: Any
    ) -> Any:
        """Consume from a queue; requests are checked before `callback` gets them."""
        if queue == UNREAD:
            return None
        if requests := REQUESTS.match(queue):
            self.body_limit = LARGEST[requests[1]]
            fanout = requests[2].startswith("_fanout")
            callback = self._checked(queue, callback, fanout)
        return super().basic_consume(queue, *args, callback=callback, **named)

    def queue_bind(self, queue: str, exchange: str = "", *args: Any, **named: Any) -> Any:
        """Bind a queue to an exchange, and remember that for `basic_consume`."""
        if queue == UNREAD:
            return None
        self._exchanges[queue] = exchange
        return super().queue_bind(queue, exchange, *args, **named)

    def exchange_declare(self, exchange: str, type: str, **named: Any) -> Any:
        """Declare an exchange, unless one of this name exists.

        A user who may declare an exchange may delete it, too. So no user needs that permission for
        the exchanges that all users share.
        """
        if named.get("passive") or not self._exchange_exists(exchange):
            return super().exchange_declare(exchange, type, **named)
        return None

    def _exchange_exists(self, exchange: str) -> bool:
        if self.connection is None:
            # What kombu answers with a new connection.
            raise amqp.RecoverableConnectionError("the channel is closed")
        # The answer that there is none closes the channel, so it gets one of its own.
        other = self.connection.channel()
        try:
            super(Channel, other).exchange_declare(exchange, "", passive=True)
        except amqp.NotFound:
            return False
        finally:
            other.close()
        return True

    def _checked(
        self, queue: str, callback: Callable[..., None], fanout: bool
    ) -> Callable[..., None]:
        exchange = self._exchanges.get(queue, "")

        def receive(message: Any) -> None:
            try:
                check_delivery(
                    queue, message.delivery_info, message.properties, exchange, fanout=fanout
                )
                self._check(message)
            except RefusedMessage as refusal:
                self.basic_reject(message.delivery_tag, requeue=False)
                for listener in tuple(_listeners):
                    listener(refusal)
            else:
                callback(message)

        return receive

    def _check(self, message: Any) -> None:
        body = message.body
        encoded = body.encode() if isinstance(body, str) else body
        unique_id = check(encoded, message.properties, self.body_limit or MAX_BODY)
        if unique_id is not None:
            # oslo.messaging would log a traceback.
            if unique_id in self._unique_ids:
                raise RefusedMessage("duplicate")
            self._unique_ids[unique_id] = None
            if len(self._unique_ids) > REMEMBERED:
                del self._unique_ids[next(iter(self._unique_ids))]

    def basic_publish_confirm(self, message: Any, **named: Any) -> Any:
        """Publish a message and wait for its confirmation.

        :raises MessageUndeliverable: a mandatory message (a reply) has no queue, or its queue
            rejects it.
        """
        try:
            return super().basic_publish_confirm(message, **named)
        except oslo_messaging.MessageUndeliverable:
            # Otherwise the next message on this channel would take this confirmation for its own.
            self.wait([spec.Basic.Ack, spec.Basic.Nack], timeout=CONFIRMATION)
            raise
        except MessageNacked as error:
            if not named.get("mandatory"):
                raise
            # kombu would take it for an error of the connection, and publish again without limit.
            raise oslo_messaging.MessageUndeliverable(
                error, named.get("exchange"), named.get("routing_key"), message
            ) from error


class Connection(_Waiting, pyamqp.Connection):
    """A connection whose channels and frames are those of this module."""

    Channel = Channel
    # Without connection.blocked, for which py-amqp looks before it sends a message. All messages
    # are confirmed here, and a blocked broker is noticed by that.
    negotiate_capabilities: ClassVar = {
        "consumer_cancel_notify": True,
        "authentication_failure_close": True,
    }

    def __init__(self, *args: Any, **named: Any) -> None:
        self._answer_by: float | None = None
        super().__init__(*args, frame_handler=harmless_frames, **named)

    def connect(self, *args: Any, **named: Any) -> Any:
        """Connect to the broker, and record the error. oslo.messaging only logs it."""
        try:
            connected = super().connect(*args, **named)
        except Exception as error:
            _connection_errors.append(str(error) or type(error).__name__)
            raise
        _connection_errors.clear()
        return connected

    @contextlib.contextmanager
    def answering_by(self, deadline: float) -> Iterator[None]:
        """Read no longer than that. For the thread that uses the connection."""
        before, self._answer_by = self._answer_by, deadline
        try:
            yield
        finally:
            self._answer_by = before

    def blocking_read(self, timeout: float | None = None) -> Any:
        """Read one frame. :raises ConnectionError: the answer that is waited for did not arrive."""
        deadline = self._answer_by
        if deadline is None:
            return super().blocking_read(timeout)
        # If this process stood still, the answer has arrived in the meantime.
        left = max(deadline - time.monotonic(), ARRIVED)
        try:
            return super().blocking_read(left if timeout is None else min(left, timeout))
        except TimeoutError as error:
            if time.monotonic() < deadline:
                raise
            # oslo.messaging takes a time-out for the end of a poll, and goes on without the answer.
            why = f"the message broker did not answer within {ANSWER:g} s"
            raise ConnectionError(why) from error


class Transport(pyamqp.Transport):
    """The transport for ``amqp://``, and so for oslo.messaging's ``rabbit://``."""

    Connection = Connection
