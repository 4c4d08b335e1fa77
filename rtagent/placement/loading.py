"""Load the Placement client from the options of ``[placement]``, with keystoneauth1, and share it
between threads.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any

from keystoneauth1 import exceptions, loading
from keystoneauth1.plugin import BaseAuthPlugin
from oslo_config import cfg

from rtagent.conf.options import rule, written
from rtagent.conf.placement import GROUP, register
from rtagent.errors import ConfigError, PlacementError
from rtagent.placement.client import HttpPlacement

#: The message of what needs Placement where `load` returns None.
NOT_CONFIGURED = (
    "Placement is not configured: set [placement] auth_type, and the options that this type needs,"
    " in rtagent.conf, and restart the agent"
)


def not_configured() -> PlacementError:
    """Return the error of what needs Placement where `load` returns None."""
    return PlacementError(NOT_CONFIGURED)


def load(conf: cfg.ConfigOpts) -> HttpPlacement | None:
    """Return the client that the options describe.

    :returns: None if ``auth_type`` is unset: nothing is published.
    :raises ConfigError: naming the option.
    """
    register(conf)
    try:
        return _load(conf)
    except cfg.Error as exc:
        raise _unreadable_option(conf, exc) from exc


def connector(conf: cfg.ConfigOpts) -> Callable[[], HttpPlacement] | None:
    """Return what makes a client for each thread, or None as `load`. :raises ConfigError:"""
    if load(conf) is None:
        return None

    def connect() -> HttpPlacement:
        client = load(conf)
        assert client is not None
        return client

    return connect


def _load(conf: cfg.ConfigOpts) -> HttpPlacement | None:
    auth = _auth(conf)
    if auth is None:
        return None
    try:
        session = loading.load_session_from_conf_options(conf, GROUP, auth=auth)
        return HttpPlacement(loading.load_adapter_from_conf_options(conf, GROUP, session=session))
    except TypeError as exc:
        raise _wrong("valid_interfaces", conf[GROUP].valid_interfaces, str(exc)) from exc


def _auth(conf: cfg.ConfigOpts) -> BaseAuthPlugin | None:
    # Again, now that auth_section can be read: auth_type is looked up in that section.
    loading.register_auth_conf_options(conf, GROUP)
    try:
        return loading.load_auth_from_conf_options(conf, GROUP)
    except exceptions.MissingRequiredOptions as exc:
        missing = ", ".join(option.dest for option in exc.options)
        raise _wrong(missing, "", "must be set for this auth_type") from exc
    except exceptions.NoMatchingPlugin as exc:
        raise _wrong("auth_type", exc.name, "must name a plugin of keystoneauth1") from exc


def _unreadable_option(conf: cfg.ConfigOpts, error: cfg.Error) -> ConfigError:
    """Return which option cannot be read. Those of the plugin are registered at this point."""
    for name in conf[GROUP]:
        try:
            conf[GROUP][name]
        except cfg.Error as exc:
            return _wrong(name, written(conf, GROUP, cfg.StrOpt(name)), rule(exc))
    return _wrong("auth_section", conf[GROUP].auth_section, str(error))


def _wrong(option: str, value: object, rule: str) -> ConfigError:
    return ConfigError(group=GROUP, option=option, value=str(value), rule=rule)


class ThreadClient(threading.local):
    """A client for each thread. :ivar api: that of the thread that asks."""

    def __init__(self, connect: Callable[[], HttpPlacement]) -> None:
        self.api = connect()


class ConductorPlacement:
    """The allocations of instances and migrations. Thread-safe."""

    def __init__(self, connect: Callable[[], HttpPlacement]) -> None:
        """:param connect: makes a client. Each thread has its own."""
        self._local = ThreadClient(connect)

    def consumer(self, uuid: str) -> Mapping[str, Any]:
        """See `rtagent.conductor.ports.Allocations`, as for `write`."""
        return self._local.api.consumer(uuid)

    def write(self, consumers: Mapping[str, Mapping[str, Any]]) -> None:
        self._local.api.post_consumers(consumers)
