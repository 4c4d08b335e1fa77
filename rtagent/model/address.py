"""PCI addresses, and the two patterns by which an operator names a set of them."""

import re
from collections.abc import Mapping
from typing import Annotated, NamedTuple

from msgspec import Meta

from rtagent.model.base import Value

#: The largest value of each field. Some virtual buses have domains of more than 16 bits; a device
#: there cannot be passed to a guest (LP1897528).
LIMITS: Mapping[str, int] = {"domain": 0xFFFF, "bus": 0xFF, "slot": 0x1F, "function": 0x7}
#: The number of hex digits of each field.
WIDTHS: Mapping[str, int] = {"domain": 4, "bus": 2, "slot": 2, "function": 1}

#: The canonical form of an address.
PCI_ADDRESS = r"^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]$"
# The length refuses a final line feed, before which `$` matches too.
PciAddress = Annotated[str, Meta(pattern=PCI_ADDRESS, max_length=12)]

ANY = "*"
_HEX = re.compile(r"[0-9a-fA-F]+")
_WHOLE = re.compile(r"([0-9a-fA-F]+):([0-9a-fA-F]+):([0-9a-fA-F]+)\.([0-9a-fA-F]+)")


class BadAddress(ValueError):
    """The text is neither a PCI address nor a pattern of addresses. The message is the violated
    rule.
    """


class Address(NamedTuple):
    """The four fields in canonical form: lower case, zero-padded."""

    domain: str
    bus: str
    slot: str
    function: str

    def __str__(self) -> str:
        return f"{self.domain}:{self.bus}:{self.slot}.{self.function}"


def parse_address(text: str) -> Address:
    """Parse ``domain:bus:slot.function``.

    :raises BadAddress: the text has another form, or a field exceeds its limit.
    """
    found = _WHOLE.fullmatch(text)
    if found is None:
        raise BadAddress("must be like 0000:08:00.0")
    fields = zip(LIMITS, found.groups(), strict=True)
    return Address(*(_field(name, digits) for name, digits in fields))


def make_address(domain: int, bus: int, slot: int, function: int) -> Address:
    """Build an address from its four numbers.

    :raises BadAddress: a field exceeds its limit.
    """
    numbers = zip(LIMITS, (domain, bus, slot, function), strict=True)
    return Address(*(_field(name, f"{number:x}") for name, number in numbers))


class AddressGlob(Value, frozen=True, tag=True):
    """``[[[[domain]:]bus]:][slot][.[function]]``; each field is hex, ``*`` or omitted (any)."""

    fields: tuple[str, str, str, str]

    @property
    def single(self) -> bool:
        """Whether the pattern names exactly one address."""
        return ANY not in self.fields

    def matches(self, address: Address) -> bool:
        """Compare field by field."""
        return all(
            pattern in (ANY, field) for pattern, field in zip(self.fields, address, strict=True)
        )


class AddressRegex(Value, frozen=True, tag=True):
    """A regular expression for each field; an omitted field matches anything.

    An expression matches a prefix of its field (Nova's rule).
    """

    fields: tuple[str, str, str, str]

    @property
    def single(self) -> bool:
        """Whether the pattern names exactly one address: every field has all of its digits.

        Fewer digits are a prefix of several values.
        """
        return all(
            _HEX.fullmatch(field) and len(field) == width
            for field, width in zip(self.fields, WIDTHS.values(), strict=True)
        )

    def matches(self, address: Address) -> bool:
        """Compare field by field."""
        return all(
            re.match(pattern, field) for pattern, field in zip(self.fields, address, strict=True)
        )


AddressPattern = AddressGlob | AddressRegex

#: Matches every address.
EVERY = AddressGlob((ANY, ANY, ANY, ANY))


def parse_glob(text: str) -> AddressGlob:
    """Parse an `AddressGlob`.

    :raises BadAddress: the message names the field.
    """
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
    """Parse an `AddressRegex` from expressions by field name.

    :raises BadAddress: the message names the field.
    """
    unknown = sorted(fields.keys() - LIMITS.keys())
    if unknown:
        raise BadAddress(f"{unknown[0]}: unknown field; the fields are {', '.join(LIMITS)}")
    domain, bus, slot, function = (_regex(name, fields.get(name, ".*")) for name in LIMITS)
    return AddressRegex((domain, bus, slot, function))


def _regex(name: str, field: object) -> str:
    if not isinstance(field, str):
        raise BadAddress(f"{name}: must be a string")
    try:
        re.compile(field)
    except re.error as error:
        raise BadAddress(f"{name}: not a regular expression: {error}") from error
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
