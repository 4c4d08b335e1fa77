"""The connections of oslo.messaging's driver, without what each call pays for nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import oslo_messaging
from oslo_messaging._drivers.amqp import AMQPDestinationNotFound
from oslo_messaging._drivers.common import Timeout
from oslo_messaging._drivers.impl_rabbit import Connection, RabbitDriver

#: Seconds that a wait for messages lasts at least. oslo.messaging's waits begin with a millisecond,
#: so that messages of notifications are acknowledged soon. Calls and replies are acknowledged as
#: they arrive, and each wait that ends in vain costs CPU time while others work.
POLL = 0.05
#: What oslo.messaging raises as it is, without another attempt.
FINAL = (AMQPDestinationNotFound, oslo_messaging.MessageUndeliverable, Timeout)


class QuickConnection(Connection):
    """A connection that prepares for a failure only after it.

    oslo.messaging has kombu wrap each message that it sends, and each wait for one. kombu makes a
    class for each of these, which takes longer than to encode the message.
    """

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
        """Wait for messages. :raises Timeout: there was none for `POLL` seconds, or longer."""
        super().consume(None if timeout is None else max(timeout, POLL))


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
