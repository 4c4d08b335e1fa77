"""From ``[placement]`` to a client, by way of keystoneauth1."""

from __future__ import annotations

from keystoneauth1 import exceptions, loading
from keystoneauth1.plugin import BaseAuthPlugin
from oslo_config import cfg

from rtagent.conf.reading import rule, written
from rtagent.errors import ConfigError
from rtagent.placement.client import HttpPlacement

GROUP = "placement"


def load(conf: cfg.ConfigOpts) -> HttpPlacement | None:
    """The client that the options describe; None without ``auth_type``: nothing is published.

    :raises ConfigError: naming the option.
    """
    try:
        return _load(conf)
    except cfg.Error as exc:
        raise _unread(conf, exc) from exc


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
    # Once more, now that auth_section can be read: auth_type is looked for there.
    loading.register_auth_conf_options(conf, GROUP)
    try:
        return loading.load_auth_from_conf_options(conf, GROUP)
    except exceptions.MissingRequiredOptions as exc:
        missing = ", ".join(option.dest for option in exc.options)
        raise _wrong(missing, "", "must be set for this auth_type") from exc
    except exceptions.NoMatchingPlugin as exc:
        raise _wrong("auth_type", exc.name, "must name a plugin of keystoneauth1") from exc


def _unread(conf: cfg.ConfigOpts, error: cfg.Error) -> ConfigError:
    """Which option cannot be read; the plugin's own are registered by now."""
    for name in conf[GROUP]:
        try:
            conf[GROUP][name]
        except cfg.Error as exc:
            return _wrong(name, written(conf, GROUP, cfg.StrOpt(name)), rule(exc))
    return _wrong("auth_section", conf[GROUP].auth_section, str(error))


def _wrong(option: str, value: object, rule: str) -> ConfigError:
    return ConfigError(group=GROUP, option=option, value=str(value), rule=rule)
