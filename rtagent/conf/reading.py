"""Options read one by one, so that every mistake is told and none hides another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oslo_config import cfg

from rtagent.errors import ConfigError

#: The first mistake of each option, by its group and name.
Mistakes = dict[tuple[str, str], ConfigError]


def values(
    conf: cfg.ConfigOpts, group: str, options: Sequence[cfg.Opt], mistakes: Mistakes
) -> dict[str, Any]:
    """What a group's options say, by name; one that cannot be read counts as its default.

    :param mistakes: gets those that cannot be read.
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
    """The error: an option's value breaks a rule."""
    return ConfigError(group=group, option=option, value=str(value), rule=rule)


def note(mistakes: Mistakes, error: ConfigError) -> None:
    """Add a mistake, unless its option has one already."""
    mistakes.setdefault((error.kwargs["group"], error.kwargs["option"]), error)


def rule(unread: Exception) -> str:
    """What is broken, in the type's own sentence: oslo.config wraps it in one that names files and
    lines."""
    return str(unread.__context__ or unread)


def written(conf: cfg.ConfigOpts, group: str, option: cfg.Opt) -> str:
    """What the operator wrote, whatever the option's type makes of it."""
    plain, section = cfg.ConfigOpts(), None if group == "DEFAULT" else group
    as_text = cfg.MultiStrOpt if option.multi else cfg.StrOpt
    plain.register_opt(as_text(option.dest), section)
    plain([], default_config_files=conf.config_file, default_config_dirs=conf.config_dir)
    try:
        text = (plain[section] if section else plain)[option.dest]
    except cfg.Error:  # a $reference to nothing, which oslo.config does not give away as it is
        return "(unresolved)"
    return "; ".join(text) if option.multi else str(text)
