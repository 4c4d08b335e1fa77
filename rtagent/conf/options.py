"""Declare an option once, as a field of its group, and read the values of a parsed configuration.

Options are read one by one, so that all mistakes are reported.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from inspect import cleandoc
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

from msgspec import field
from msgspec.structs import fields
from oslo_config import cfg

from rtagent.conf.types import FiniteFloat
from rtagent.errors import ConfigError
from rtagent.model.base import MAX_INT, Value, divided

#: The first mistake of each option, by the option's group and name.
Mistakes = dict[tuple[str, str], ConfigError]


class Group(Value, frozen=True, kw_only=True):
    """An option group. Each field is an `option`, whose default is the field's. What the docstring
    says of a field, as reStructuredText, is the help of the option.

    Made without a configuration, it has references such as ``$state_path`` as they are written.
    """


def option(kind: Callable[..., cfg.Opt] | None = None, **words: Any) -> Any:
    """Declare the option of a field of a `Group`, which has its name.

    :param kind: oslo.config's class; None: that of the field's type.
    :param words: its arguments; ``help`` if the docstring of the group says nothing of the field;
        ``note``, a paragraph that the help of several options ends with.
    """
    return field(default_factory=_Declared(kind, words))


def mutable(kind: Callable[..., cfg.Opt] | None = None, **words: Any) -> Any:
    """Declare an option that a reload reads again, as `option`."""
    return option(kind, mutable=True, **words)


class _Declared:
    """What a field knows of its option. Called, it returns the default."""

    def __init__(self, kind: Callable[..., cfg.Opt] | None, words: dict[str, Any]) -> None:
        self._kind, self._note, self._words = kind, words.pop("note", ""), words

    def __call__(self) -> Any:
        return frozen(self._words.get("default"))

    def opt(self, name: str, annotation: Any, text: str | None) -> cfg.Opt:
        kind = self._kind or (cfg.Opt if "type" in self._words else _kind_of(annotation))
        text = text and "\n\n".join(filter(None, (cleandoc(text), self._note)))
        # The generator writes the type behind the help; a list or an example has to end before it.
        end = "\n" if text and "\n" in text else ""
        return kind(name, **{"help": text and text + end, **self._words})


def _integer(name: str, **words: Any) -> cfg.Opt:
    # A larger one fits neither a column of the database nor a document.
    return cfg.IntOpt(name, **{"max": MAX_INT, **words})


def _number(name: str, **words: Any) -> cfg.Opt:
    bounds = FiniteFloat(min=words.pop("min", None), max=words.pop("max", None))
    return cfg.Opt(name, type=bounds, **words)


_KINDS = {bool: cfg.BoolOpt, int: _integer, float: _number, str: cfg.StrOpt}


def _kind_of(annotation: Any) -> Callable[..., cfg.Opt]:
    """Return the class for one of these types, literal texts or a sequence of texts, or for one of
    them or None.
    """
    type_ = get_args(annotation)[0] if get_origin(annotation) is UnionType else annotation
    if get_origin(type_) is Sequence:
        return cfg.ListOpt
    return _KINDS[str if get_origin(type_) is Literal else type_]


@cache
def options(group: type[Group]) -> Sequence[cfg.Opt]:
    """Return the options that a group declares, in their order."""
    declared = ((info, info.default_factory) for info in fields(group))
    texts = divided(group.__doc__ or "")[1]
    return [
        made.opt(info.name, info.type, texts.get(info.name))
        for info, made in declared
        if isinstance(made, _Declared)
    ]


def frozen(value: Any) -> Any:
    """Return the value of an option; a list as a tuple."""
    return tuple(value) if isinstance(value, list) else value


def section(group: str) -> str | None:
    """Return the group's name as oslo.config expects it: None for DEFAULT."""
    return None if group == "DEFAULT" else group


def values(
    conf: cfg.ConfigOpts, group: str, declared: Sequence[cfg.Opt], mistakes: Mistakes
) -> dict[str, Any]:
    """Return the values of options of a group, by name. An unreadable one counts as its default.

    A number without text is none for oslo.config, so only an option without a default may be empty.

    :param mistakes: the unreadable options are added to it.
    """
    holder = conf if group == "DEFAULT" else conf[group]
    read: dict[str, Any] = {}
    for opt in declared:
        name = opt.dest
        try:
            read[name] = frozen(holder[name])
        except (ValueError, cfg.Error, RecursionError) as exc:
            note(mistakes, mistake(group, name, written(conf, group, opt), rule(exc)))
            read[name] = frozen(opt.default)
        if read[name] is None and opt.default is not None:
            empty = f"must have a value; without the option it is {opt.default}"
            note(mistakes, mistake(group, name, "", empty))
            read[name] = frozen(opt.default)
    return read


def mistake(group: str, option: str, value: object, rule: str) -> ConfigError:
    """Return the error for an option whose value violates a rule."""
    return ConfigError(group=group, option=option, value=str(value), rule=rule)


def note(mistakes: Mistakes, error: ConfigError) -> None:
    """Add a mistake, unless its option already has one."""
    mistakes.setdefault((error.kwargs["group"], error.kwargs["option"]), error)


def rule(unread: Exception) -> str:
    """Return the violated rule, in the words of the option's type.

    oslo.config wraps that error in one that names files and lines. A $reference of an option to
    itself, also by way of another one, has none.
    """
    causes = (unread, unread.__context__)
    if any(isinstance(cause, RecursionError) for cause in causes):
        return "refers to itself"
    # oslo.config rounds a bound to six digits.
    return str(unread.__context__ or unread).replace(f"{MAX_INT:g}", str(MAX_INT))


def written(conf: cfg.ConfigOpts, group: str, option: cfg.Opt) -> str:
    """Return the text that the operator wrote for an option, before its type interprets it; else
    its default, which may refer to an unreadable option.
    """
    plain, holder = cfg.ConfigOpts(), section(group)
    as_text = cfg.MultiStrOpt if option.multi else cfg.StrOpt
    plain.register_opt(as_text(option.dest), holder)
    plain([], default_config_files=conf.config_file, default_config_dirs=conf.config_dir)
    try:
        text = (plain[holder] if holder else plain)[option.dest]
    except (cfg.Error, RecursionError):  # a $reference to an absent option, or to itself
        return "(unresolved)"
    if text is None:
        return str(option.default)
    return "; ".join(text) if option.multi else str(text)


def sections(conf: cfg.ConfigOpts) -> Iterator[tuple[Path, dict[str, dict[str, list[str]]]]]:
    """Yield the files of a parsed configuration, with their groups, options and values as text.

    The groups have their names in lower case, as `plain` returns them.
    """
    for file in _files(conf):
        written: dict[str, dict[str, list[str]]] = {}
        cfg.ConfigParser(str(file), written).parse()
        groups: dict[str, dict[str, list[str]]] = {}
        for name, group in written.items():
            same = groups.setdefault(plain(name), {})
            for option, values in group.items():
                same.setdefault(option, []).extend(values)
        yield file, groups


def plain(group: str) -> str:
    """Return the name of a group as oslo.config looks for it: ``[Compute]`` is ``[compute]``."""
    return group if group == "DEFAULT" else group.lower()


def _files(conf: cfg.ConfigOpts) -> Iterator[Path]:
    yield from map(Path, conf.config_file or ())
    for directory in conf.config_dir or ():
        yield from sorted(Path(directory).glob("*.conf"))
