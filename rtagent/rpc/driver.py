"""All that this package uses of oslo.messaging and that is not public there.

`PRIVATE` lists the names; ``setup.cfg`` bounds oslo.messaging, kombu and amqp by the releases that
were tried with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_messaging.rpc.server import RPCServer

#: The private names, with the reason for each.
PRIVATE: Mapping[str, str] = {
    "_driver": "of a transport: the names below are those of RabbitMQ's driver",
    "_get_reply_queue_name": "permissions can name the reply queues of a user",
    "_send": "an event goes to a queue that exists, and is refused if there is none",
    "_get_connection": "a reply is tried once",
    "_send_reply": "the same",
    "_executor_cls": "threads are shared, and the number of messages that wait is bounded",
}

#: The groups of options that oslo.messaging registers in the global configuration only.
_GLOBAL = ("oslo_messaging_metrics", "oslo_messaging_tracing")
_KINDS: Mapping[type, type[cfg.Opt]] = {bool: cfg.BoolOpt, int: cfg.IntOpt}


def register_options(conf: cfg.ConfigOpts) -> None:
    """Register the options that oslo.messaging reads from `conf`, but registers elsewhere."""
    for group in _GLOBAL:
        if group not in conf:
            for name, default in cfg.CONF[group].items():
                kind = _KINDS.get(type(default), cfg.StrOpt)
                conf.register_opt(kind(name, default=default), group=group)


def name_reply_queue(transport: oslo_messaging.RPCTransport, name: Callable[[], str]) -> None:
    """Let `name` make the name of the reply queue of a transport to RabbitMQ."""
    transport._driver._get_reply_queue_name = name


def send_to_queue(
    transport: oslo_messaging.NotificationTransport,
    target: oslo_messaging.Target,
    message: dict[str, Any],
    *,
    enveloped: bool,
    retry: int,
) -> None:
    """Send a message to a queue of RabbitMQ, which must exist.

    oslo.messaging would declare the queue first. A user who may do so may delete it, too.

    :raises MessageUndeliverable: there is no queue.
    """
    transport._driver._send(
        target,
        {},
        message,
        envelope=enveloped,
        retry=retry,
        transport_options=oslo_messaging.TransportOptions(at_least_once=True),
    )


def send_notification(
    transport: oslo_messaging.NotificationTransport,
    target: oslo_messaging.Target,
    message: dict[str, Any],
    *,
    version: float,
    retry: int,
) -> None:
    """Send a message as oslo.messaging's notifier does, but raise the errors."""
    transport._driver.send_notification(target, {}, message, version, retry)


def send_reply(incoming: Any, reply: Any, failure: Any) -> bool:
    """Try once to send a reply by RabbitMQ. Return whether its queue has it."""
    try:
        with incoming.listener.driver._get_connection() as connection:
            incoming._send_reply(connection, reply, failure)
    except oslo_messaging.MessageUndeliverable:
        return False
    return True


def use_executor(server: RPCServer, executor: Callable[..., Executor]) -> None:
    """Let a server that is not started yet make its executor in this way.

    :param executor: gets the number of threads as ``max_workers``.
    """
    server._executor_cls = executor
