"""HostLock: the lock at the message broker that admits one agent per host name.

Agents with one host name consume one queue, so that each call reaches any of them. Their databases
cannot exclude that, because each machine may have its own. The broker can: the lock is an exclusive
queue, which RabbitMQ gives to one connection at a time and deletes with that connection.

An agent that finds the queue locked sends its identity to it, through the exchange of calls, so
that the topic permissions of the broker decide who may do so. The holder answers with its own, so
both know of each other. A holder that has died does not answer, and the broker drops its
connection after two or three heartbeats.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Callable
from typing import Any

import amqp
import msgspec
import oslo_messaging

from rtagent.model.base import Value
from rtagent.rpc.broker.connection import BROKEN, Broker, broker_of
from rtagent.rpc.broker.names import lock_queue
from rtagent.rpc.duplicates import AgentIdentity
from rtagent.rpc.envelope import RefusedMessage, check_delivery

#: Seconds between two heartbeats of the connection. RabbitMQ advises against less.
HEARTBEAT = 5
#: Seconds for which the answer of the holder is awaited.
ANSWER_TIMEOUT = 2.0
#: Bytes of the longest message that is received.
MAX_MESSAGE = 4096
#: RabbitMQ's pseudo queue for replies, which needs no declaration.
REPLY_TO = "amq.rabbitmq.reply-to"
_decode_identity = msgspec.json.Decoder(AgentIdentity).decode


class Attempt(enum.Enum):
    """The outcome of an attempt to take the lock."""

    HELD = enum.auto()
    #: Another connection has it.
    TAKEN = enum.auto()
    #: The broker does not accept a connection, or has lost it.
    UNREACHABLE = enum.auto()
    #: The broker does not let this user take the lock.
    REFUSED = enum.auto()


class LockOutcome(Value, frozen=True, kw_only=True):
    """:ivar holder: who answered while the lock was `TAKEN`; None: there was no answer.
    :ivar why: the error, if the lock is `UNREACHABLE` or `REFUSED`.
    """

    attempt: Attempt
    holder: AgentIdentity | None = None
    why: str = ""


class HostLock:
    """The lock of one host name. For use by one thread.

    :ivar held: whether this process has the lock.
    """

    def __init__(
        self, broker: Broker, host: str, me: AgentIdentity, met: Callable[[AgentIdentity], None]
    ) -> None:
        """:param met: is called with the identity of each agent that wants the lock meanwhile."""
        self._broker, self._me, self._met = broker, me, met
        self._queue = lock_queue(host)
        self._connection: amqp.Connection | None = None
        self._channel: amqp.Channel | None = None

    @property
    def held(self) -> bool:
        return self._channel is not None

    def take(self) -> LockOutcome:
        """Try to take the lock. If another agent has it, exchange identities with that agent."""
        self._channel = None
        try:
            connection = self._connection = self._connection or self._broker.connect(
                self._queue, HEARTBEAT
            )
            try:
                self._channel = self._declare(_channel(connection))
                return LockOutcome(attempt=Attempt.HELD)
            except amqp.ResourceLocked:
                holder = self._ask_holder(_channel(connection))
                return LockOutcome(attempt=Attempt.TAKEN, holder=holder)
            except amqp.ChannelError as error:
                self.close()  # it may have declared the queue, but must not read it
                return LockOutcome(attempt=Attempt.REFUSED, why=str(error))
        except BROKEN as error:
            self.close()
            return LockOutcome(attempt=Attempt.UNREACHABLE, why=str(error) or type(error).__name__)

    def keep(self, seconds: float) -> bool:
        """Answer other agents for this time. Return whether the lock is still held.

        If it is, the broker gets a heartbeat at the end. Call it again at once: the broker drops a
        connection without heartbeats. A heartbeat of the broker begins the time anew.
        """
        assert self._connection is not None
        try:
            self._drain(seconds)
            self._connection.heartbeat_tick()  # it notices a silent broker, but sends too rarely
            self._connection.send_heartbeat()
        except BROKEN:
            self.close()
        return self.held

    def close(self) -> None:
        """Release the lock and close the connection. Idempotent."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            # Without AMQP's Close, whose answer never comes on a broken connection.
            connection.collect()

    # -- the exchange of identities ---------------------------------------------------------------

    def _declare(self, channel: amqp.Channel) -> amqp.Channel:
        # A quorum queue cannot be exclusive, and may be the default of the virtual host.
        classic = {"x-queue-type": "classic"}
        channel.queue_declare(self._queue, exclusive=True, auto_delete=False, arguments=classic)
        exchange = self._broker.control_exchange(channel)
        channel.queue_bind(self._queue, exchange, self._queue)
        channel.basic_consume(
            self._queue, no_ack=True, callback=lambda message: self._answer(channel, message)
        )
        return channel

    def _answer(self, channel: amqp.Channel, message: amqp.Message) -> None:
        """Answer an agent that wants the lock."""
        try:
            # Every user that may send replies can write to the queue by the default exchange.
            check_delivery(
                self._queue, message.delivery_info, message.properties, self._broker.exchange
            )
        except RefusedMessage:
            return
        other = _identity(message)
        if other is None or other.agent_uuid == self._me.agent_uuid:
            return
        self._met(other)
        reply_to = message.properties.get("reply_to", "")
        if reply_to.startswith(REPLY_TO):  # and not to any queue that a sender names
            self._send(channel, "", reply_to)

    def _ask_holder(self, channel: amqp.Channel) -> AgentIdentity | None:
        """Send the own identity to the holder, and return that of the holder if it answers."""
        exchange = self._broker.control_exchange(channel)
        answers: list[amqp.Message] = []
        channel.basic_consume(REPLY_TO, no_ack=True, callback=answers.append)
        self._send(channel, exchange, self._queue, reply_to=REPLY_TO)
        self._drain(ANSWER_TIMEOUT)
        channel.close()
        holder = _identity(answers[0]) if answers else None
        return None if holder == self._me else holder

    def _send(self, channel: amqp.Channel, exchange: str, queue: str, **properties: Any) -> None:
        message = amqp.Message(msgspec.json.encode(self._me), **properties)
        channel.basic_publish(message, exchange, queue)

    def _drain(self, seconds: float) -> None:
        """Wait for one event, for this time at most."""
        assert self._connection is not None
        with contextlib.suppress(TimeoutError):
            self._connection.drain_events(timeout=seconds)


def host_lock(
    transport: oslo_messaging.RPCTransport,
    host: str,
    me: AgentIdentity,
    met: Callable[[AgentIdentity], None],
) -> HostLock | None:
    """The lock at the broker of a transport; None: that broker is not RabbitMQ."""
    broker = broker_of(transport)
    return None if broker is None else HostLock(broker, host, me, met)


def _channel(connection: amqp.Connection) -> amqp.Channel:
    """A channel for messages that anybody may have sent."""
    channel = connection.channel()
    channel.body_limit = MAX_MESSAGE  # see `harmless_frames`
    return channel


def _identity(message: amqp.Message) -> AgentIdentity | None:
    try:
        return _decode_identity(message.body)
    except (msgspec.DecodeError, UnicodeError):  # ValidationError included
        return None
