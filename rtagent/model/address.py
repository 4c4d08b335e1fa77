"""Addresses of devices, and the two ways in which an operator names a set of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from rtagent.model.base import Value

#: The largest value of each field, which fixes how many hex digits it is written with. A domain of
#: more than 16 bits, as some software-made buses have, is none that a guest can be given
#: (LP1897528).
LIMITS: Mapping[str, int] = {"domain": 0xFFFF, "bus": 0xFF, "slot": 0x1F, "function": 0x7}
WIDTHS: Mapping[str, int] = {"domain": 4, "bus": 2, "slot": 2, "function": 1}

ANY = "*"
_HEX = re.compile(r"[0-9a-fA-F]+")
_WHOLE = re.compile(r"([0-9a-fA-F]+):([0-9a-fA-F]+):([0-9a-fA-F]+)\.([0-9a-fA-F]+)")


class BadAddress(ValueError):
    """No address, or no pattern of addresses; the message is the rule that it breaks."""


class Address(NamedTuple):
    """The four fields as they are written: lower case, zeros in front."""

    domain: str
    bus: str
    slot: str
    function: str

    def __str__(self) -> str:
        return f"{self.domain}:{self.bus}:{self.slot}.{self.function}"


def parse_address(text: str) -> Address:
    """The address of one device, in its usual form.

    :raises BadAddress: it has not the form, or a field is beyond its limit.
    """
    found = _WHOLE.fullmatch(text)
    if found is None:
        raise BadAddress("must be like 0000:08:00.0")
    fields = zip(LIMITS, found.groups(), strict=True)
    return Address(*(_field(name, digits) for name, digits in fields))


def make_address(domain: int, bus: int, slot: int, function: int) -> Address:
    """:raises BadAddress: a field is beyond its limit."""
    numbers = zip(LIMITS, (domain, bus, slot, function), strict=True)
    return Address(*(_field(name, f"{number:x}") for name, number in numbers))


class AddressGlob(Value, frozen=True):
    """``[[[[domain]:]bus]:][slot][.[function]]``, where a field is hex, ``*`` or left out."""

    fields: tuple[str, str, str, str]

    @property
    def single(self) -> bool:
        """It names one address."""
        return ANY not in self.fields

    def matches(self, address: Address) -> bool:
        """Field by field."""
        return all(mine in (ANY, theirs) for mine, theirs in zip(self.fields, address, strict=True))


class AddressRegex(Value, frozen=True):
    """A regular expression for each field, which need match its beginning only (Nova's rule); a
    field that is left out is any."""

    fields: tuple[str, str, str, str]

    @property
    def single(self) -> bool:
        """It names one address: what is written is nothing but hex digits."""
        return all(_HEX.fullmatch(field) for field in self.fields)

    def matches(self, address: Address) -> bool:
        """Field by field."""
        return all(
            re.match(mine, theirs) for mine, theirs in zip(self.fields, address, strict=True)
        )


AddressPattern = AddressGlob | AddressRegex

EVERY = AddressGlob((ANY, ANY, ANY, ANY))


def parse_glob(text: str) -> AddressGlob:
    """:raises BadAddress: naming the field."""
    front, _, function = text.partition(".")
    fronts = front.split(":")
    if len(fronts) > 3:
        raise BadAddress("must be domain:bus:slot.function")
    fields = (*[ANY] * (3 - len(fronts)), *fronts, function)
    domain, bus, slot, last = (
        _pattern_field(name, field.strip()) for name, field in zip(LIMITS, fields, strict=True)
    )
    return AddressGlob((domain, bus, slot, last))


def parse_regex(fields: Mapping[str, object]) -> AddressRegex:
    """:raises BadAddress: naming the field."""
    unknown = sorted(fields.keys() - LIMITS.keys())
    if unknown:
        raise BadAddress(f"{unknown[0]}: the fields of an address are {', '.join(LIMITS)}")
    domain, bus, slot, function = (_regex(name, fields.get(name, ".*")) for name in LIMITS)
    return AddressRegex((domain, bus, slot, function))


def _regex(name: str, field: object) -> str:
    if not isinstance(field, str):
        raise BadAddress(f"{name}: must be a string")
    try:
        re.compile(field)
    except re.error as error:
        raise BadAddress(f"{name}: no regular expression: {error}") from error
    return field


def _pattern_field(name: str, field: str) -> str:
    return ANY if field in ("", ANY) else _field(name, field)


def _field(name: str, digits: str) -> str:
    if not _HEX.fullmatch(digits):
        raise BadAddress(f"{name}: {digits!r} is not hexadecimal")
    number = int(digits, 16)
    if number > LIMITS[name]:
        raise BadAddress(f"{name}: {digits} is more than {LIMITS[name]:X}")
    return f"{number:0{WIDTHS[name]}x}"
