"""Command line and files into a parsed configuration."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg
from oslo_log import log

from rtagent import __version__
from rtagent.conf import opts
from rtagent.errors import ConfigError

PROJECT = "rtagent"


def parse(
    conf: cfg.ConfigOpts, args: Sequence[str], prog: str, cli: Sequence[cfg.Opt] = ()
) -> cfg.ConfigOpts:
    """Register every option on `conf` and parse; values are judged by `settings.read`.

    :param args: the command line, without the program's name.
    :param cli: options that this program's command line has beside oslo.config's.
    :raises ExceptionGroup: of one `ConfigError`: a file that is missing or that cannot be parsed.
    """
    opts.register_opts(conf)
    log.register_options(conf)
    conf.register_cli_opts(cli)
    try:
        conf(args, project=PROJECT, prog=prog, version=__version__)
    except cfg.Error as exc:
        error = ConfigError(
            group="command line", option="config_file", value=" ".join(args), rule=str(exc)
        )
        raise ExceptionGroup("the configuration cannot be read", [error]) from exc
    return conf
