"""The listener of an agent at RabbitMQ, on queues of its own."""

from __future__ import annotations

from typing import Any

import oslo_messaging
from oslo_messaging._drivers import base, common
from oslo_messaging._drivers.amqpdriver import RpcAMQPListener
from oslo_messaging._drivers.impl_rabbit import RabbitDriver


def listen(transport: oslo_messaging.RPCTransport, target: oslo_messaging.Target) -> Any | None:
    """Listen to the messages for one server and to those for all.

    oslo.messaging's listener also reads the queue of the topic, which all servers share. No call
    for an agent goes there, and an agent that may read it may also delete it.

    :returns: None: the driver is not that of RabbitMQ. :raises Exception: as oslo.messaging does.
    """
    driver = transport._driver
    if not isinstance(driver, RabbitDriver):
        return None
    connection = driver._get_connection(common.PURPOSE_LISTEN)
    listener = RpcAMQPListener(driver, connection)
    try:
        connection.declare_topic_consumer(
            exchange_name=driver._get_exchange(target),
            topic=f"{target.topic}.{target.server}",
            callback=listener,
        )
        connection.declare_fanout_consumer(target.topic, listener)
    except BaseException:
        connection.close()  # the caller tries again, with another connection
        raise
    return base.PollStyleListenerAdapter(listener, 1, None)
