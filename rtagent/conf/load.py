"""Register all options, list them for the sample file, and parse the command line and the files."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator, Sequence

from oslo_config import cfg
from oslo_log import log
from oslo_reports import opts as report_opts

from rtagent import __version__
from rtagent.conf import devices, neutron, placement
from rtagent.conf.options import options, section
from rtagent.conf.settings import groups
from rtagent.errors import ConfigError
from rtagent.model.printable import printable_lines

PROJECT = "rtagent"

#: oslo.config's exit code for a bad value; argparse has 2 for usage, and 0 for help.
BAD_VALUE = 1


def own() -> Iterator[tuple[str, Sequence[cfg.Opt]]]:
    """Yield rtagent's own groups with their options."""
    for name, group in groups().items():
        yield name, options(group)


def register(conf: cfg.ConfigOpts) -> None:
    """Register these options. `settings.read` registers the groups of types and networks."""
    for group, declared in own():
        conf.register_opts(declared, section(group))


def list_opts() -> Sequence[tuple[str, Sequence[cfg.Opt]]]:
    """Return all options for oslo.config's generator and validator (``oslo.config.opts``)."""
    listed = dict(own())
    listed[placement.GROUP] = [*listed[placement.GROUP], *placement.documented()]
    mdev = (devices.mdev_group("<type>"), devices.mdev_options("<type>"))
    physnet = (neutron.physnet_group("<name>"), neutron.physnet_options())
    return [*listed.items(), mdev, physnet]


def parse(
    conf: cfg.ConfigOpts, args: Sequence[str], prog: str, cli: Sequence[cfg.Opt] = ()
) -> cfg.ConfigOpts:
    """Register every option on `conf` and parse. `settings.read` checks the values.

    :param args: the command line, without the program's name.
    :param cli: options that this program's command line has besides oslo.config's.
    :raises ExceptionGroup: of one `ConfigError`: a file is missing or cannot be parsed, or sets an
        invalid value for an option of the log.
    """
    register(conf)
    log.register_options(conf)
    report_opts.set_defaults(conf)
    conf.register_cli_opts(cli)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stderr(printed):
            # oslo.config finds both twice, if project and program have the same name.
            files, directories = (
                list(dict.fromkeys(find(PROJECT, prog)))
                for find in (cfg.find_config_files, cfg.find_config_dirs)
            )
            conf(args, PROJECT, prog, __version__, None, files, directories)
    except (cfg.Error, OSError, UnicodeError) as exc:
        raise _unusable(args, str(exc)) from exc
    except SystemExit as exc:
        # oslo.config exits if a file has an invalid value for an option of the command line.
        if exc.code == BAD_VALUE:
            raise _unusable(args, printed.getvalue().strip()) from exc
        sys.stderr.write(printable_lines(printed.getvalue()))
        raise
    return conf


def _unusable(args: Sequence[str], rule: str) -> ExceptionGroup[ConfigError]:
    error = ConfigError(group="command line", option="config_file", value=" ".join(args), rule=rule)
    return ExceptionGroup("the configuration cannot be read", [error])
