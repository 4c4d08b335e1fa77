"""The transport of messages, for the server and for clients."""

from __future__ import annotations

import oslo_messaging
from oslo_config import cfg
from oslo_messaging._metrics.client import oslo_messaging_metrics
from oslo_messaging._tracing.client import oslo_messaging_tracing

from rtagent.conf import upgrade_levels
from rtagent.errors import ConfigError
from rtagent.rpc import amqp_transport

#: Modules whose errors are raised at the client with their original types.
ERROR_MODULES = ("rtagent.errors",)


def get_transport(conf: cfg.ConfigOpts, url: str | None = None) -> oslo_messaging.RPCTransport:
    """The transport of the configuration: ``transport_url``, ``[oslo_messaging_rabbit]`` and so on.
    It is not connected yet.

    :param url: in place of ``transport_url``.
    :raises ConfigError: the URL is invalid, or its driver is not installed.
    :raises cfg.Error: an option of oslo.messaging is invalid.
    """
    amqp_transport.install()
    # oslo.messaging reads these from `conf`, but registers them in the global configuration.
    conf.register_opts(oslo_messaging_metrics, group="oslo_messaging_metrics")
    conf.register_opts(oslo_messaging_tracing, group="oslo_messaging_tracing")
    conf.register_opts(upgrade_levels.OPTS, group=upgrade_levels.GROUP)
    try:
        return oslo_messaging.get_rpc_transport(
            conf, url, allowed_remote_exmods=list(ERROR_MODULES)
        )
    except cfg.Error:
        raise
    except (
        oslo_messaging.InvalidTransportURL,
        oslo_messaging.DriverLoadFailure,
        ValueError,  # the port is not a number
    ) as exc:
        # The error contains neither the URL nor oslo.messaging's sentence, because both may contain
        # a password.
        scheme = str(url or conf.transport_url).partition("://")[0]
        raise ConfigError(
            group="DEFAULT",
            option="transport_url",
            value=f"{scheme}://...",
            rule="must be a URL of one of oslo.messaging's drivers, such as rabbit:// or fake://",
        ) from exc
