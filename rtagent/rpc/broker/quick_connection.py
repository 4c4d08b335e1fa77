"""The connections of oslo.messaging's driver, without what each call pays for nothing."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable
from ssl import SSLSocket
from typing import Any

import oslo_messaging
from oslo_messaging._drivers.amqp import AMQPDestinationNotFound
from oslo_messaging._drivers.common import Timeout
from oslo_messaging._drivers.impl_rabbit import Connection, RabbitDriver

#: Seconds in which oslo.messaging reads what has arrived.
ARRIVED = 0.01
#: What oslo.messaging raises as it is, without another attempt.
FINAL = (AMQPDestinationNotFound, oslo_messaging.MessageUndeliverable, Timeout)


class QuickConnection(Connection):
    """A connection that prepares for a failure only after it.

    oslo.messaging has kombu wrap each message that it sends, and each wait for one. kombu makes a
    class for each of these, which takes longer than to encode the message.

    Its waits for messages begin with a millisecond and grow to seconds, so that the messages of
    notifications are acknowledged soon. Calls and replies are acknowledged as they arrive. So the
    waits of this connection last until a message arrives, a heartbeat is due, or `stop_consuming`.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        # A byte in the second one ends the waits. The garbage collector closes both.
        self._stopped, self._stop = socket.socketpair()
        super().__init__(*args, **named)

    def ensure(
        self, method: Callable[[], Any], retry: float | None = None, **callbacks: Any
    ) -> Any:
        """Call `method`. If that fails, continue as oslo.messaging would have done."""
        if self.channel is None or self._initial_pid != os.getpid():
            return super().ensure(method, retry=retry, **callbacks)
        try:
            return method()
        except FINAL:
            raise
        except Exception as error:
            return super().ensure(_failed_first(method, error), retry=retry, **callbacks)

    def consume(self, timeout: float | None = None) -> None:
        """Wait for messages, and have them received.

        :param timeout: None: until there is one. :raises Timeout: there was none.
        """
        waited = timeout is not None and self._waited()
        super().consume(ARRIVED if waited else timeout)

    def stop_consuming(self) -> None:
        """End the wait for messages, and make no further one."""
        super().stop_consuming()
        self._stop.send(b"\0")

    def _waited(self) -> bool:
        """Wait until there is something to read, or to do. Return whether that was possible."""
        try:
            transport = self.channel.connection.transport
            sock = transport.sock
            arrived = sock.pending() if isinstance(sock, SSLSocket) else transport.has_frame
        except AttributeError:  # not connected, or not to a broker
            return False
        if not (arrived or self._new_tags):  # of queues that are not consumed from yet
            poll = select.poll()
            poll.register(sock, select.POLLIN)
            poll.register(self._stopped, select.POLLIN)
            poll.poll(self._poll_timeout * 1000)
        return True


def _failed_first(method: Callable[[], Any], error: Exception) -> Callable[[], Any]:
    """Return a function that first raises this error, and later calls the method."""
    failures = [error]

    def attempt() -> Any:
        if failures:
            raise failures.pop()
        return method()

    return attempt


def quicken(transport: oslo_messaging.Transport) -> None:
    """Let all later connections of a transport be quick ones, if its broker is RabbitMQ."""
    driver = transport._driver
    if isinstance(driver, RabbitDriver):
        driver._connection_pool.connection_cls = QuickConnection
