"""Register all options, list them for the sample file, parse the command line and the files, and
read the settings, at the start and at each reload.

A value that violates its option's type or bounds, or a rule between options, is a `ConfigError`.
All of them are raised together, as an `ExceptionGroup`.
"""

import contextlib
import io
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace
from oslo_config import cfg

from rtagent import __version__
from rtagent.conf import placement
from rtagent.conf.compute import (
    MdevOptions,
    mdev_group,
    mdev_options,
    physnet_group,
    physnet_options,
)
from rtagent.conf.options import Mistakes, note, options, section, values
from rtagent.conf.rules import broken_rules
from rtagent.conf.settings import Settings, groups
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
    """Register these options. `read` registers the groups of types and networks."""
    for group, declared in own():
        conf.register_opts(declared, section(group))


def list_opts() -> Sequence[tuple[str, Sequence[cfg.Opt]]]:
    """Return all options for oslo.config's generator and validator (``oslo.config.opts``)."""
    listed = dict(own())
    listed[placement.GROUP] = [*listed[placement.GROUP], *placement.documented()]
    mdev = (mdev_group("<type>"), mdev_options("<type>"))
    physnet = (physnet_group("<name>"), physnet_options())
    return [*listed.items(), mdev, physnet]


def parse(
    conf: cfg.ConfigOpts, args: Sequence[str], prog: str, cli: Sequence[cfg.Opt] = ()
) -> cfg.ConfigOpts:
    """Register every option on `conf` and parse. `read` checks the values.

    :param args: the command line, without the program's name.
    :param cli: options that this program's command line has besides oslo.config's.
    :raises ExceptionGroup: of one `ConfigError`: a file is missing or cannot be parsed, or sets an
        invalid value for an option of the command line, as those of the log are.
    """
    register(conf)
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


def read(conf: cfg.ConfigOpts) -> Settings:
    """Return the settings of a parsed configuration.

    :raises ExceptionGroup: of `ConfigError`: every mistake in the configuration.
    """
    settings, mistakes = judge(conf)
    refuse(mistakes)
    return settings


def read_options(conf: cfg.ConfigOpts) -> Settings:
    """Return the settings without provider files, for a program that does not need a policy.

    :raises ExceptionGroup: of `ConfigError`: every mistake in the options.
    """
    settings, mistakes = _judge_options(conf)
    refuse(mistakes)
    return settings


def judge(conf: cfg.ConfigOpts, before: Settings | None = None) -> tuple[Settings, Mistakes]:
    """Return the settings and every mistake.

    An option that cannot be read counts as its default, so that the other rules can be checked.

    :param before: the settings whose provider files and flavors apply; None: the files are read.
    """
    settings, mistakes = _judge_options(conf)
    if before is not None:
        files, flavors = before.provider_files, before.flavors
        return replace(settings, provider_files=files, flavors=flavors), mistakes
    from rtagent.conf.flavors_file import read_flavors
    from rtagent.conf.provider_files import read_files

    files, wrong = read_files(settings.compute.provider_config_location)
    for error in wrong:  # a file can have several
        mistakes["compute", str(error)] = error
    flavors, unclear = read_flavors(settings.capacity.flavors_file)
    for mistake in unclear:
        mistakes["capacity", str(mistake)] = mistake
    return replace(settings, provider_files=files, flavors=flavors), mistakes


def _judge_options(conf: cfg.ConfigOpts) -> tuple[Settings, Mistakes]:
    mistakes: Mistakes = {}
    read: dict[str, Any] = {
        name.lower(): group(**values(conf, name, options(group), mistakes))
        for name, group in groups().items()
    }
    mdev = {
        type_: MdevOptions(**_read_group(conf, mdev_group(type_), mdev_options(type_), mistakes))
        for type_ in read["devices"].enabled_mdev_types
    }
    physnets = {
        name: _read_group(conf, physnet_group(name), physnet_options(), mistakes)["numa_nodes"]
        for name in read["neutron"].physnets
    }
    settings = Settings(mdev=mdev, physnets=physnets, **read)
    for error in broken_rules(settings):
        note(mistakes, error)
    return settings, mistakes


def refuse(mistakes: Mistakes) -> None:
    """Raise the mistakes, if there are any. :raises ExceptionGroup: of all of them."""
    if mistakes:
        raise ExceptionGroup("the configuration cannot be used", list(mistakes.values()))


def _read_group(
    conf: cfg.ConfigOpts, group: str, declared: Sequence[cfg.Opt], mistakes: Mistakes
) -> dict[str, Any]:
    """Read a group whose name an option has."""
    conf.register_opts(declared, group)
    return values(conf, group, declared, mistakes)
