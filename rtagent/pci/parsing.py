"""Parsers of the values that operators and callers write.

The values of ``[pci]`` options are JSON documents; `OptionDocument` reads one key by key. The other
parsers read single values: booleans, hexadecimal ids, and names of Placement.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import os_resource_classes
import os_traits

from rtagent.errors import PciConfigError
from rtagent.model.address import BadAddress
from rtagent.model.base import BOOLEANS, Value

T = TypeVar("T")

_ID = re.compile(r"(?:0x)?0*([0-9a-f]{1,4})")
_CUSTOM = "CUSTOM_"
_NAME_LENGTH = 255

_RESOURCE_CLASSES = frozenset(os_resource_classes.STANDARDS)
_TRAITS = frozenset(os_traits.get_traits())

#: What regular expressions and JSON raise that repeat or nest too much.
_TOO_LARGE = (OverflowError, RecursionError)

#: The key of errors that concern a whole document.
_WHOLE = "the document"
_decode = msgspec.json.Decoder().decode


class InvalidValue(ValueError):
    """A value cannot be parsed. The message is the rule that is broken."""


def parse_string(value: object) -> str:
    """Strip surrounding blanks.

    :raises InvalidValue: the value is not a string, or is empty.
    """
    if not isinstance(value, str) or not value.strip():
        raise InvalidValue("must be a string, and not empty")
    return value.strip()


def parse_boolean(value: object) -> bool:
    """Accept JSON booleans, 1 and 0, and the words of oslo.utils, in any case.

    :raises InvalidValue: the value is neither.
    """
    enabled = BOOLEANS.get(str(value).strip().lower())
    if enabled is None:
        raise InvalidValue("must be yes or no")
    return enabled


def parse_hex_id(value: object) -> str:
    """Parse a vendor's or a product's id, and return it as four digits in lower case.

    :raises InvalidValue: the value exceeds FFFF, or is not hexadecimal.
    """
    found = _ID.fullmatch(parse_string(value).lower())
    if found is None:
        raise InvalidValue("must be at most four hexadecimal digits, also after 0x")
    return found[1].zfill(4)


def one_of(allowed: Sequence[str]) -> Callable[[object], str]:
    """Return a parser that accepts these values, and raises `InvalidValue` for others."""

    def parse(value: object) -> str:
        if value not in allowed:
            raise InvalidValue(f"must be one of {', '.join(allowed)}")
        return str(value)

    return parse


def parse_network(value: object) -> str | None:
    """Parse a physical network; null is a tunnelled network.

    :raises InvalidValue: the value is neither null nor a string.
    """
    try:
        return None if value is None else parse_string(value)
    except InvalidValue as error:
        raise InvalidValue(f"{error}; null is a tunnelled network") from error


def parse_resource_class(value: object) -> str | None:
    """Parse a resource class: a standard one in any case, or else the name of a custom one.

    :return: None if the value is empty: the default class.
    :raises InvalidValue: the value is not a string, or cannot be the name of a class.
    """
    name = _parse_name(value).upper()
    if not name or name in _RESOURCE_CLASSES:
        return name or None
    return _custom_name(name, os_resource_classes.normalize_name)


def parse_traits(value: object) -> frozenset[str]:
    """Parse traits that are separated by commas: standard ones as they are written, and else the
    names of custom ones. An empty value is no trait.

    :raises InvalidValue: the value is not a string, or a part cannot be the name of a trait.
    """
    names = _parse_name(value).split(",")
    return frozenset(
        name if name in _TRAITS else _custom_name(name.upper(), os_traits.normalize_name)
        for name in names
        if name
    )


def name_doubt(name: str) -> str | None:
    """Return why a parsed name of a class or trait is probably not what its writer meant, or None.

    Nova's scheduler derives the same names without a warning, so they cannot be errors.
    """
    own = name.removeprefix(_CUSTOM)
    if own == name:
        return None
    if own in _TRAITS:
        return f"{name} is not the standard trait {own}, which must be written in upper case"
    if own.startswith("_"):
        return f"{name} begins with an underscore: a blank before a name is a part of it"
    return None


def _parse_name(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidValue("must be a string")
    return value


def _custom_name(name: str, normalize: Callable[[str], str]) -> str:
    """Return the name in Placement of a class or trait that is not standard, as Nova derives it.

    The prefix is looked for before the name is normalised: ``CUSTOM-A`` is ``CUSTOM_CUSTOM_A``.
    Blanks are characters of the name like others.

    :param name: in upper case.
    """
    known = re.sub(r"[^A-Z0-9_]+", "_", name) if name.startswith(_CUSTOM) else normalize(name)
    if not len(_CUSTOM) < len(known) <= _NAME_LENGTH:
        raise InvalidValue(
            f"must have 1 to {_NAME_LENGTH - len(_CUSTOM)} characters, {_CUSTOM} apart"
        )
    return known


#: Functions that parse the values of keys.
Parsers = Mapping[str, Callable[[Any], Any]]


class OptionDocument(Value, frozen=True, kw_only=True):
    """One JSON object in the value of a ``[pci]`` option.

    :ivar index: its position among the option's values.
    :ivar error: the exception class for its mistakes.
    """

    option: str
    index: str
    content: Mapping[str, Any]
    error: type[PciConfigError]

    def invalid(self, key: str, rule: str) -> PciConfigError:
        """Return the error for a value of `key` that violates the rule. "" as the key means the
        whole document.
        """
        value = self.content.get(key, "") if key else dict(self.content)
        return _error(self.error, self.option, self.index, key or _WHOLE, value, rule)

    def check_keys(self, allowed: Sequence[str]) -> None:
        """:raises PciConfigError: the document has a key that is not allowed."""
        for key in self.content:
            if key not in allowed:
                raise self.invalid(key, f"unknown key; the keys are {', '.join(allowed)}")

    def get(self, key: str, parse: Callable[[Any], T], default: T) -> T:
        """Return the parsed value of `key`, or the default if the key is absent.

        :raises PciConfigError: the value cannot be parsed.
        """
        if key not in self.content:
            return default
        try:
            return parse(self.content[key])
        except (InvalidValue, BadAddress, *_TOO_LARGE) as error:
            raise self.invalid(key, str(error)) from error

    def values(self, parsers: Parsers) -> dict[str, Any]:
        """Return the parsed values of those keys that are present.

        :raises PciConfigError: a value cannot be parsed.
        """
        return {key: self.get(key, parsers[key], None) for key in parsers if key in self.content}


def option_documents(
    option: str, values: Sequence[str], error: type[PciConfigError]
) -> Iterator[OptionDocument]:
    """Parse the values of a ``[pci]`` option: each is a JSON object or a list of objects.

    :param error: the exception class for mistakes.
    :raises PciConfigError: a value is neither.
    """
    for number, text in enumerate(values):
        try:
            content = _decode(text)
        except (msgspec.DecodeError, *_TOO_LARGE) as broken:
            rule = f"must be a JSON object, or a list of them: {broken}"
            raise _error(error, option, str(number), _WHOLE, text, rule) from broken
        listed = content if isinstance(content, list) else [content]
        for position, each in enumerate(listed):
            index = f"{number}[{position}]" if isinstance(content, list) else str(number)
            if not isinstance(each, dict):
                rule = "must be a JSON object, or a list of them"
                raise _error(error, option, index, _WHOLE, each, rule)
            yield OptionDocument(option=option, index=index, content=each, error=error)


def _error(
    error: type[PciConfigError], option: str, index: str, key: str, value: Any, rule: str
) -> PciConfigError:
    return error(group="pci", option=option, index=index, key=key, value=value, rule=rule)
