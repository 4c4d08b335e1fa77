"""A quick connection repeats what fails, as oslo.messaging's own does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import amqp
import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging._drivers.amqp import AMQPDestinationNotFound
from oslo_messaging._drivers.common import PURPOSE_SEND, Timeout

from rtagent.rpc.broker.quick_connection import QuickConnection
from rtagent.rpc.transport import get_transport


class Attempts:
    """Fails with each of these errors, one after the other. :ivar made: the number of calls."""

    def __init__(self, *errors: Exception) -> None:
        self._errors, self.made = list(errors), 0

    def __call__(self) -> None:
        self.made += 1
        if self._errors:
            raise self._errors.pop(0)


@pytest.fixture
def connection() -> Iterator[Any]:
    conf = cfg.ConfigOpts()
    conf([], project="rtagent", default_config_files=[])
    transport = get_transport(conf, "kombu+memory://")
    conf.set_override("kombu_reconnect_delay", 0, group="oslo_messaging_rabbit")
    with transport._driver._get_connection(PURPOSE_SEND) as pooled:
        assert isinstance(pooled.connection, QuickConnection)
        yield pooled
    transport.cleanup()


def test_what_succeeds_is_done_once(connection):
    attempts = Attempts()
    connection.ensure(attempts, retry=2)
    assert attempts.made == 1


def test_a_lost_connection_is_opened_again(connection):
    attempts, lost, before = (
        Attempts(amqp.RecoverableConnectionError("lost")),
        [],
        connection.channel,
    )
    connection.ensure(attempts, retry=2, recoverable_error_callback=lost.append)
    assert attempts.made == 2
    assert [str(error) for error in lost] == ["lost"]
    assert connection.channel is not before


def test_the_number_of_attempts_is_bounded(connection):
    attempts, failed = Attempts(*[amqp.RecoverableConnectionError("lost")] * 5), []
    with pytest.raises(oslo_messaging.MessageDeliveryFailure):
        connection.ensure(attempts, retry=1, error_callback=failed.append)
    assert attempts.made == 2
    assert len(failed) == 1


@pytest.mark.parametrize(
    "error",
    [
        Timeout(),
        AMQPDestinationNotFound("no exchange"),
        oslo_messaging.MessageUndeliverable(None, "", "", None),
    ],
)
def test_what_no_repetition_helps_is_raised_as_it_is(connection, error):
    attempts = Attempts(error)
    with pytest.raises(type(error)) as raised:
        connection.ensure(attempts, retry=2)
    assert raised.value is error
    assert attempts.made == 1
