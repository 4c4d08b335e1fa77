"""What operators and callers write for yes, no, an id, and a name that Placement knows."""

from __future__ import annotations

import re

import os_resource_classes
import os_traits

#: Words that oslo.utils takes for yes and no, which are Nova's.
_YES = frozenset({"1", "t", "true", "on", "y", "yes"})
_NO = frozenset({"0", "f", "false", "off", "n", "no"})
_ID = re.compile(r"[0-9a-f]{1,4}")
_CUSTOM = "CUSTOM_"
_NAME_LENGTH = 255

_RESOURCE_CLASSES = frozenset(os_resource_classes.STANDARDS)
_TRAITS = frozenset(os_traits.get_traits())


class BadWord(ValueError):
    """The message is the rule that is broken."""


def string(value: object) -> str:
    """:raises BadWord: it is none, or empty."""
    if not isinstance(value, str) or not value.strip():
        raise BadWord("must be a string, and not empty")
    return value.strip()


def boolean(value: object) -> bool:
    """:raises BadWord: it is neither yes nor no, in any case or as JSON has it."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in _YES | _NO:
        raise BadWord("must be yes or no")
    return word in _YES


def hex_id(value: object) -> str:
    """A vendor's or a product's id: four digits, lower case.

    :raises BadWord: it is more than FFFF, or not hexadecimal.
    """
    digits = string(value).lower()
    if not _ID.fullmatch(digits):
        raise BadWord("must be at most four hexadecimal digits")
    return digits.zfill(4)


def resource_class(value: object) -> str:
    """A standard class, or the name of a custom one. :raises BadWord:"""
    return _placement_name(string(value), _RESOURCE_CLASSES)


def traits(value: object) -> frozenset[str]:
    """Of a list with commas. :raises BadWord:"""
    names = (name.strip() for name in string(value).split(","))
    return frozenset(_placement_name(name, _TRAITS) for name in names if name)


def _placement_name(name: str, standard: frozenset[str]) -> str:
    """As it is when it is a standard one; else in capitals, every other character an underscore,
    and CUSTOM_ in front."""
    upper = re.sub(r"[^A-Z0-9_]+", "_", name.upper())
    known = upper if upper in standard or upper.startswith(_CUSTOM) else _CUSTOM + upper
    if len(known) > _NAME_LENGTH:
        raise BadWord(f"must be at most {_NAME_LENGTH} characters as {_CUSTOM}...")
    return known
