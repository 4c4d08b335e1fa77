"""The way to the message bus, for server and client alike."""

from __future__ import annotations

import oslo_messaging
from oslo_config import cfg
from oslo_messaging._metrics.client import oslo_messaging_metrics
from oslo_messaging._tracing.client import oslo_messaging_tracing

from rtagent.conf import upgrade_levels
from rtagent.errors import ConfigError

#: Whose errors arrive as themselves.
ERROR_MODULES = ("rtagent.errors",)


def get_transport(conf: cfg.ConfigOpts, url: str | None = None) -> oslo_messaging.RPCTransport:
    """The transport that the configuration describes: ``transport_url``,
    ``[oslo_messaging_rabbit]`` and the like. Nothing is connected yet.

    :param url: instead of ``transport_url``.
    :raises ConfigError: it is no URL, or of a driver that is not there.
    :raises cfg.Error: an option of the library's cannot be read.
    """
    # The library reads these from the configuration at hand, but registers them on the global one.
    conf.register_opts(oslo_messaging_metrics, group="oslo_messaging_metrics")
    conf.register_opts(oslo_messaging_tracing, group="oslo_messaging_tracing")
    conf.register_opts(upgrade_levels.OPTS, group=upgrade_levels.GROUP)
    try:
        return oslo_messaging.get_rpc_transport(
            conf, url, allowed_remote_exmods=list(ERROR_MODULES)
        )
    except cfg.Error:
        raise
    except (  # the last one: a port that is no number
        oslo_messaging.InvalidTransportURL,
        oslo_messaging.DriverLoadFailure,
        ValueError,
    ) as exc:
        # Neither the URL nor the library's sentence: both may hold a password.
        scheme = str(url or conf.transport_url).partition("://")[0]
        raise ConfigError(
            group="DEFAULT",
            option="transport_url",
            value=f"{scheme}://...",
            rule="must be a URL of one of oslo.messaging's drivers, such as rabbit:// or fake://",
        ) from exc
