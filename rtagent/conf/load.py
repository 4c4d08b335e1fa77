"""Command line and files into a parsed configuration."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Sequence

from oslo_config import cfg
from oslo_log import log

from rtagent import __version__
from rtagent.conf import opts
from rtagent.errors import ConfigError

PROJECT = "rtagent"

#: oslo.config's exit code; argparse has 2 for usage, and 0 for help.
BAD_VALUE = 1


def parse(
    conf: cfg.ConfigOpts, args: Sequence[str], prog: str, cli: Sequence[cfg.Opt] = ()
) -> cfg.ConfigOpts:
    """Register every option on `conf` and parse; values are judged by `settings.read`.

    :param args: the command line, without the program's name.
    :param cli: options that this program's command line has beside oslo.config's.
    :raises ExceptionGroup: of one `ConfigError`: a file that is missing or that cannot be parsed,
        or that says of the log what cannot be.
    """
    opts.register_opts(conf)
    log.register_options(conf)
    conf.register_cli_opts(cli)
    told = io.StringIO()
    try:
        with contextlib.redirect_stderr(told):
            conf(args, project=PROJECT, prog=prog, version=__version__)
    except (cfg.Error, OSError, UnicodeError) as exc:
        raise _unusable(args, str(exc)) from exc
    except SystemExit as exc:
        # So oslo.config ends for the value, in a file, of an option that a command line may have.
        if exc.code == BAD_VALUE:
            raise _unusable(args, told.getvalue().strip()) from exc
        sys.stderr.write(told.getvalue())
        raise
    return conf


def _unusable(args: Sequence[str], rule: str) -> ExceptionGroup[ConfigError]:
    error = ConfigError(group="command line", option="config_file", value=" ".join(args), rule=rule)
    return ExceptionGroup("the configuration cannot be read", [error])
