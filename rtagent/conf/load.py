"""Load the command line and the files into a parsed configuration, and read the values of its
options.

Options are read one by one, so that all mistakes are reported.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from oslo_config import cfg
from oslo_log import log
from oslo_reports import opts as report_opts

from rtagent import __version__
from rtagent.conf import opts
from rtagent.errors import ConfigError
from rtagent.model.printable import printable_lines

PROJECT = "rtagent"

#: oslo.config's exit code for a bad value; argparse has 2 for usage, and 0 for help.
BAD_VALUE = 1

#: The first mistake of each option, by the option's group and name.
Mistakes = dict[tuple[str, str], ConfigError]


def parse(
    conf: cfg.ConfigOpts, args: Sequence[str], prog: str, cli: Sequence[cfg.Opt] = ()
) -> cfg.ConfigOpts:
    """Register every option on `conf` and parse. `settings.read` checks the values.

    :param args: the command line, without the program's name.
    :param cli: options that this program's command line has besides oslo.config's.
    :raises ExceptionGroup: of one `ConfigError`: a file is missing or cannot be parsed, or sets an
        invalid value for an option of the log.
    """
    opts.register_opts(conf)
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


def values(
    conf: cfg.ConfigOpts, group: str, options: Sequence[cfg.Opt], mistakes: Mistakes
) -> dict[str, Any]:
    """Return the values of a group's options, by name. An unreadable option counts as its default.

    :param mistakes: the unreadable options are added to it.
    """
    section = conf if group == "DEFAULT" else conf[group]
    read: dict[str, Any] = {}
    for option in options:
        name = option.dest
        try:
            read[name] = section[name]
        except (ValueError, cfg.Error) as exc:
            note(mistakes, mistake(group, name, written(conf, group, option), rule(exc)))
            read[name] = option.default
    return read


def mistake(group: str, option: str, value: object, rule: str) -> ConfigError:
    """Return the error for an option whose value violates a rule."""
    return ConfigError(group=group, option=option, value=str(value), rule=rule)


def note(mistakes: Mistakes, error: ConfigError) -> None:
    """Add a mistake, unless its option already has one."""
    mistakes.setdefault((error.kwargs["group"], error.kwargs["option"]), error)


def rule(unread: Exception) -> str:
    """Return the violated rule, in the words of the option's type.

    oslo.config wraps that error in one that names files and lines.
    """
    return str(unread.__context__ or unread)


def written(conf: cfg.ConfigOpts, group: str, option: cfg.Opt) -> str:
    """Return the text that the operator wrote for an option, before its type interprets it."""
    plain, section = cfg.ConfigOpts(), None if group == "DEFAULT" else group
    as_text = cfg.MultiStrOpt if option.multi else cfg.StrOpt
    plain.register_opt(as_text(option.dest), section)
    plain([], default_config_files=conf.config_file, default_config_dirs=conf.config_dir)
    try:
        text = (plain[section] if section else plain)[option.dest]
    except cfg.Error:  # a $reference to an option that does not exist
        return "(unresolved)"
    return "; ".join(text) if option.multi else str(text)


def sections(conf: cfg.ConfigOpts) -> Iterator[tuple[Path, dict[str, dict[str, list[str]]]]]:
    """Yield the files of a parsed configuration, with their groups, options and values as text."""
    for file in _files(conf):
        groups: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(str(file), groups).parse()
        yield file, groups


def _files(conf: cfg.ConfigOpts) -> Iterator[Path]:
    yield from map(Path, conf.config_file or ())
    for directory in conf.config_dir or ():
        yield from sorted(Path(directory).glob("*.conf"))


def _unusable(args: Sequence[str], rule: str) -> ExceptionGroup[ConfigError]:
    error = ConfigError(group="command line", option="config_file", value=" ".join(args), rule=rule)
    return ExceptionGroup("the configuration cannot be read", [error])
