"""The connections of oslo.messaging to RabbitMQ, made robust against any message.

oslo.messaging connects by kombu's transport for ``amqp://``. This is that transport, with its
documented extension points: the classes of connections, channels and messages, and py-amqp's frame
handler. The messages of other queues, such as replies, are not checked.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import kombu.transport
import oslo_messaging
from amqp import spec
from amqp.exceptions import MessageNacked
from kombu.transport import pyamqp

from rtagent.rpc.amqp_frames import harmless_frames
from rtagent.rpc.envelope import MAX_BODY, Refused, check
from rtagent.rpc.methods import TOPIC

#: The queues of the agents' requests: of all, of one, and of a call to all at once.
REQUESTS = re.compile(rf"{TOPIC}(\Z|\.|_fanout_)")
#: The number of message ids that a channel remembers. oslo.messaging remembers as many.
REMEMBERED = 16
#: Seconds to wait for the confirmation that follows a returned message.
CONFIRMATION = 5.0

#: Receives the reason of each refusal.
Listener = Callable[[Refused], None]

_listeners: list[Listener] = []
_lock = threading.Lock()


def install() -> None:
    """Make this the transport of all later connections of this process."""
    for alias in ("amqp", "pyamqp"):
        kombu.transport.TRANSPORT_ALIASES[alias] = f"{__name__}:Transport"


def installed() -> bool:
    """Whether connections use this transport, and not one that kombu had loaded before."""
    return kombu.transport.get_transport_cls("amqp") is Transport


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


class Channel(pyamqp.Channel):
    """A channel that checks requests before they are parsed.

    :ivar body_limit: the largest body that is received, in bytes; None: no limit.
    """

    Message = Message

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self.body_limit: int | None = None
        self._unique_ids: deque[str] = deque(maxlen=REMEMBERED)

    def basic_consume(
        self, queue: str = "", *args: Any, callback: Callable[..., None], **named: Any
    ) -> Any:
        """Consume from a queue; requests are checked before `callback` gets them."""
        if REQUESTS.match(queue):
            self.body_limit = MAX_BODY
            callback = self._checked(callback)
        return super().basic_consume(queue, *args, callback=callback, **named)

    def _checked(self, callback: Callable[..., None]) -> Callable[..., None]:
        def receive(message: Any) -> None:
            try:
                self._check(message)
            except Refused as refusal:
                self.basic_reject(message.delivery_tag, requeue=False)
                for listener in tuple(_listeners):
                    listener(refusal)
            else:
                callback(message)

        return receive

    def _check(self, message: Any) -> None:
        body = message.body
        unique_id = check(body.encode() if isinstance(body, str) else body, message.properties)
        if unique_id is not None:
            # oslo.messaging would log a traceback.
            if unique_id in self._unique_ids:
                raise Refused("duplicate")
            self._unique_ids.append(unique_id)

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


class Connection(pyamqp.Connection):
    """A connection whose channels and frames are those of this module."""

    Channel = Channel

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, frame_handler=harmless_frames, **named)


class Transport(pyamqp.Transport):
    """The transport for ``amqp://``, and so for oslo.messaging's ``rabbit://``."""

    Connection = Connection
