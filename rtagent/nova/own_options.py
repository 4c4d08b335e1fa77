"""rtagent's own options on a host that Nova serves, for example ``[api]``."""

from __future__ import annotations

from pathlib import Path

from oslo_config import cfg

from rtagent.conf import load
from rtagent.conf.settings import Settings, read_options


def defaults() -> cfg.ConfigOpts:
    """Return a configuration in which every option has its default. No file is read."""
    conf = cfg.ConfigOpts()
    load.register(conf)
    conf([], load.PROJECT, default_config_files=[], default_config_dirs=[], use_env=False)
    return conf


def of_files() -> cfg.ConfigOpts:
    """Return the configuration of rtagent's files on this host, which need not exist.

    :raises ExceptionGroup: of `ConfigError`: every mistake in them.
    """
    conf = load.parse(cfg.ConfigOpts(), [], load.PROJECT)
    read_options(conf)
    return conf


def settings_in(conf: cfg.ConfigOpts, directory: Path) -> Settings:
    """Return the settings of a configuration.

    :param directory: ``state_path``, unless the files have another one.
    """
    conf.set_default("state_path", str(directory))
    return read_options(conf)
