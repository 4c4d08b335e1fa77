"""Declare an option once, as a field of its group, and read the values of a parsed configuration.

Options are read one by one, so that all mistakes are reported.

Option types that oslo.config does not have. Their errors name the rule that the value violates.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from inspect import cleandoc
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin

import os_traits
from msgspec import field
from msgspec.structs import fields
from oslo_config import cfg, types

from rtagent.errors import ConfigError
from rtagent.model.base import MAX_INT, Value, divided
from rtagent.model.cpuset import format_cpu_spec, parse_cpu_spec
from rtagent.model.units import MAX_SIZE, BadPageSize, parse_size

_TRAITS = frozenset(os_traits.get_traits())


class Items(types.List):
    """Items without commas, separated by commas.

    The list type of oslo.config appends what follows the comma to an item that is invalid, which
    may make a valid one of two.
    """

    def __call__(self, value: Any) -> list[Any]:
        """:raises ValueError: names the invalid item."""
        if isinstance(value, str):
            text = value.strip().rstrip(",")
            value = [item.strip() for item in text.split(",")] if text else []
        return [self._item(item) for item in value]

    def _item(self, item: Any) -> Any:
        try:
            return self.item_type(item)
        except ValueError as exc:
            raise ValueError(f"item {item!r}: {exc}") from exc


class CpuSet(types.ConfigType):
    """CPUs as operators write them: ``0-3,^1,8``. An empty value counts as unset."""

    def __init__(self) -> None:
        super().__init__(type_name="CPU set")

    def __call__(self, value: Any) -> frozenset[int] | None:
        """:raises BadCpuSet:"""
        if isinstance(value, frozenset):
            return value
        return parse_cpu_spec(value) if value.strip() else None

    def _formatter(self, value: frozenset[int]) -> str:
        return format_cpu_spec(value)


class StandardTrait(types.String):
    """A trait of os-traits that begins with one of the prefixes.

    :param implied: what the operator leaves out at the beginning.
    """

    def __init__(self, *prefixes: str, implied: str = "") -> None:
        super().__init__(type_name="trait")
        self._prefixes, self._implied = prefixes, implied

    def __call__(self, value: Any) -> str:
        """:raises ValueError: there is no such trait."""
        written = super().__call__(value)
        name = self._implied + (written.upper() if self._implied else written)
        if not name.startswith(self._prefixes) or name not in _TRAITS:
            raise ValueError(f"it is not one of the standard traits {self._expected}")
        return written

    @property
    def _expected(self) -> str:
        return ", ".join(f"{prefix}*" for prefix in self._prefixes)


class RpcVersion(types.ConfigType):
    """A version of an RPC API of rtagent. An empty value counts as unset."""

    def __init__(self) -> None:
        super().__init__(type_name="string value")

    def __call__(self, value: Any) -> str | None:
        """:raises ValueError: it is none, as the names and versions of Nova are."""
        version = str(value).strip()
        if version and not re.fullmatch(r"[01]\.[0-9]{1,9}", version):
            raise ValueError(
                "must be a version of rtagent's API such as 1.0; if it is for Nova, set the option"
                " to nothing in a later file"
            )
        return version or None

    def _formatter(self, value: str) -> str:
        return value


class MonitorName(types.String):
    """A monitor as ``TYPE.NAME``. As in Nova, the type ``cpu`` and the path of Nova's modules need
    not be written.
    """

    def __call__(self, value: Any) -> str:
        name = str(super().__call__(value)).removeprefix("nova.compute.monitors.")
        return name if "." in name else f"cpu.{name}"


class ReservedPages(Value, frozen=True, kw_only=True):
    """Pages of one size in one cell that are reserved for the host.

    :ivar node: the cell. :ivar size: KiB.
    """

    node: int
    size: int
    count: int

    def __str__(self) -> str:
        return f"node:{self.node},size:{self.size},count:{self.count}"


class HugePages(types.ConfigType):
    """``node:0,size:2048,count:64``; the size in KiB, or with a unit (``1GB``)."""

    def __init__(self) -> None:
        super().__init__(type_name="pages of a cell")
        self._pairs = types.Dict(types.String())

    def __call__(self, value: Any) -> ReservedPages:
        """:raises ValueError: a key is missing or unknown, or its value is invalid."""
        if isinstance(value, ReservedPages):
            return value
        fields = self._pairs(value)
        if fields.keys() != {"node", "size", "count"}:
            raise ValueError(f"{value!r} must have node, size and count, and no other key")
        return ReservedPages(
            node=_number_text("node", fields["node"]),
            size=_size(fields["size"]),
            count=_number_text("count", fields["count"]),
        )

    def _formatter(self, value: ReservedPages) -> str:
        return str(value)


def _number_text(name: str, text: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdecimal() and int(digits) <= MAX_INT):
        raise ValueError(f"{name} {digits!r} is not a whole number from 0 to {MAX_INT}")
    return int(digits)


def _size(text: str) -> int:
    with suppress(BadPageSize):  # which names what only a flavor may request, too
        return parse_size(text)
    rule = f"neither whole KiB from 1 to {MAX_SIZE}, nor a number with a unit (2MB, 1GiB)"
    raise ValueError(f"size {text!r} is {rule}")


class FiniteFloat(types.Float):
    """A number, neither infinite nor "not a number": a weight multiplied by such a one means
    nothing, and such a time never ends. An empty value is none.
    """

    def __call__(self, value: Any) -> float | None:
        """:raises ValueError: it is not a finite number, or is out of bounds."""
        number = super().__call__(value)
        if number is None:
            return None
        if not math.isfinite(number):
            raise ValueError(f"{value!r} is not a finite number")
        return float(number)


class Ratio(types.ConfigType):
    """``NAME=NUMBER``."""

    def __init__(self) -> None:
        super().__init__(type_name="name=ratio")

    def __call__(self, value: Any) -> tuple[str, float]:
        """:raises ValueError: it has no name or no finite number."""
        if isinstance(value, tuple):
            return value
        name, _, number = (part.strip() for part in value.partition("="))
        try:
            ratio = float(number)
        except ValueError:
            ratio = math.nan
        if not name or not math.isfinite(ratio):
            raise ValueError("it is not NAME=NUMBER, for example cpu.percent=-1.0")
        return name, ratio

    def _formatter(self, value: tuple[str, float]) -> str:
        name, ratio = value
        return f"{name}={ratio}"


class RatiosType(types.ConfigType):
    """``NAME=NUMBER`` several times, separated by commas. Each name is listed once."""

    def __init__(self) -> None:
        super().__init__(type_name="name=ratio, ...")
        self._pairs = Items(Ratio())

    def __call__(self, value: Any) -> dict[str, float]:
        """:raises ValueError: an item has no name or no finite number, or is listed twice."""
        if isinstance(value, dict):
            return value
        pairs = self._pairs(value)
        ratios = dict(pairs)
        if len(ratios) < len(pairs):
            raise ValueError(f"{value!r} lists a name twice")
        return ratios

    def _formatter(self, value: dict[str, float]) -> str:
        return ", ".join(f"{name}={ratio}" for name, ratio in value.items())


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
