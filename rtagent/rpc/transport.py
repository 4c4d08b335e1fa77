"""The transport of messages, for the server and for clients."""

from __future__ import annotations

from functools import partial

import oslo_messaging
from oslo_config import cfg

from rtagent.conf.options import options
from rtagent.conf.rpc import Rpc, UpgradeLevels
from rtagent.errors import ConfigError
from rtagent.rpc import amqp_transport, driver
from rtagent.rpc.broker.names import can_name, is_rabbitmq, reply_queue

#: Modules whose errors are raised at the client with their original types.
ERROR_MODULES = ("rtagent.errors", "rtagent.scheduler.errors", "rtagent.rpc.errors")

#: The errors of oslo.messaging about a URL. The last one: the port is not a number.
_INVALID = (oslo_messaging.InvalidTransportURL, oslo_messaging.DriverLoadFailure, ValueError)


def get_transport(conf: cfg.ConfigOpts, url: str | None = None) -> oslo_messaging.RPCTransport:
    """The transport of the configuration: ``transport_url``, ``[oslo_messaging_rabbit]`` and so on.
    It is not connected yet.

    :param url: in place of ``transport_url``.
    :raises ConfigError: the URL is invalid, or its driver is not installed.
    :raises cfg.Error: an option of oslo.messaging is invalid.
    """
    _prepare(conf)
    try:
        transport = oslo_messaging.get_rpc_transport(
            conf, url, allowed_remote_exmods=list(ERROR_MODULES)
        )
    except cfg.Error:  # some are a `ValueError`, too
        raise
    except _INVALID as exc:
        raise _invalid_url("DEFAULT", url or conf.transport_url) from exc
    parsed = oslo_messaging.TransportURL.parse(conf, url)
    if is_rabbitmq(parsed):
        user = next((host.username for host in parsed.hosts), None) or ""
        # Unless an option makes the name of the reply queue.
        if can_name(user) and not transport.conf.oslo_messaging_rabbit.use_queue_manager:
            driver.name_reply_queue(transport, partial(reply_queue, user))
    return transport


def get_notification_transport(conf: cfg.ConfigOpts) -> oslo_messaging.NotificationTransport:
    """The transport of notifications: ``[oslo_messaging_notifications] transport_url``, or else
    that of all messages. It is not connected yet.

    :raises ConfigError: the URL is invalid, or its driver is not installed.
    :raises cfg.Error: an option of oslo.messaging is invalid.
    """
    _prepare(conf)
    try:
        return oslo_messaging.get_notification_transport(conf)
    except cfg.Error:  # some are a `ValueError`, too
        raise
    except _INVALID as exc:
        own = conf.oslo_messaging_notifications.transport_url
        group = "oslo_messaging_notifications" if own else "DEFAULT"
        raise _invalid_url(group, own or conf.transport_url) from exc


def _prepare(conf: cfg.ConfigOpts) -> None:
    amqp_transport.install()
    driver.register_options(conf)
    conf.register_opts(options(Rpc), group="rpc")
    conf.register_opts(options(UpgradeLevels), group="upgrade_levels")


def _invalid_url(group: str, url: str) -> ConfigError:
    """The error about a URL. It contains neither the URL nor oslo.messaging's sentence, because
    both may contain a password.
    """
    scheme = str(url).partition("://")[0]
    return ConfigError(
        group=group,
        option="transport_url",
        value=f"{scheme}://...",
        rule="must be a URL of one of oslo.messaging's drivers, such as rabbit:// or fake://",
    )
