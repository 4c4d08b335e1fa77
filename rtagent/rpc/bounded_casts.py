"""BoundedCasts: messages without replies, handed to the broker in bounded time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.model.base import Value
from rtagent.rpc.broker.refusals import explained
from rtagent.rpc.calls import RECONNECTS
from rtagent.rpc.context import ContextSerializer
from rtagent.rpc.trust.credentials import credentials

#: Seconds for which a sender waits for the broker. Less than a stop waits for a thread.
TIMEOUT = 3.0


class CastFailed(Exception):
    """Messages were not sent, or it is not known whether they were. The text says why."""


class Message(Value, frozen=True, kw_only=True):
    """A message without a reply. :ivar arguments: JSON primitives."""

    method: str
    arguments: Mapping[str, Any]


class BoundedSending:
    """Sends sequences of messages, each in bounded time. For one thread.

    oslo.messaging may wait for a broker without limit, so it gets a thread for each sequence of
    messages. While one waits, no other is sent.
    """

    def __init__(self) -> None:
        self._waiting: Future[None] | None = None

    def run(self, send: Callable[[], None]) -> None:
        """Send one sequence. :raises CastFailed:"""
        if self._waiting is not None and not self._waiting.done():
            raise CastFailed("the message broker has not accepted earlier messages yet")
        sent = Future[None]()
        threading.Thread(target=_run, args=(send, sent), name="cast", daemon=True).start()
        self._waiting = sent  # only now: it never ends if it cannot be started
        if not wait([sent], TIMEOUT).done:
            raise CastFailed(f"the message broker did not accept messages within {TIMEOUT:g} s")
        if (error := sent.exception()) is not None:
            raise CastFailed(f"the message broker cannot be used: {explained(error)}") from error


class BoundedCasts:
    """Sends messages to the servers of one topic. For one thread; cheap to create."""

    def __init__(
        self, transport: oslo_messaging.RPCTransport, topic: str, version: str, role: str
    ) -> None:
        """:param version: the first one that has the methods. :param role: of the sender.
        :raises ConfigError: a file of a key is wrong.
        """
        target = oslo_messaging.Target(topic=topic, version=version)
        self._client = oslo_messaging.get_rpc_client(
            transport, target, retry=RECONNECTS, serializer=ContextSerializer()
        )
        self._credentials, self._topic = credentials(transport), topic
        self._sending = BoundedSending()
        self._role = role

    def send(self, messages: Sequence[Message], host: str | None = None) -> None:
        """Send messages in this order.

        :param host: of the server; None: every server of the topic. :raises CastFailed:
        """
        self._sending.run(partial(self._send, messages, host))

    def _send(self, messages: Sequence[Message], host: str | None) -> None:
        options: dict[str, Any] = {"fanout": True} if host is None else {"server": host}
        client = self._client.prepare(**options)
        context = RequestContext(roles=[self._role], overwrite=False)
        for each in messages:
            proved = self._credentials.proved(
                context, self._topic, host or "", each.method, each.arguments
            )
            client.cast(proved, each.method, **each.arguments)


def _run(send: Callable[[], None], sent: Future[None]) -> None:
    try:
        send()
    except Exception as error:  # also of a library below oslo.messaging
        sent.set_exception(error)
    else:
        sent.set_result(None)
