"""Values in documents of libvirt."""

from collections.abc import Mapping
from xml.etree.ElementTree import Element

KIB, MIB = 1024, 1024**2
#: What a document cannot tell, because it has a value that makes no sense.
UNKNOWN = "unknown"


class Impossible(ValueError):
    """A value that the documentation does not allow."""


def number(text: str | None) -> int:
    """Return a number in C's notation, which libvirt reads: hexadecimal, octal or decimal."""
    digits = (text or "").strip().lower()
    base = 16 if digits.startswith("0x") else 8 if digits[:1] == "0" and digits != "0" else 10
    try:
        return int(digits, base)
    except ValueError as error:
        raise Impossible(f"{text!r} is not a number") from error


def decimal(text: str | None) -> int:
    try:
        value = int(text or "")
    except ValueError as error:
        raise Impossible(f"{text!r} is not a number") from error
    if value < 0:
        raise Impossible(f"{text!r} is negative")
    return value


def size(element: Element, attribute: str | None = None) -> int:
    """Return bytes [formatdomain, "Memory Allocation": unit]. :param attribute: None: the text."""
    written = element.text if attribute is None else element.get(attribute)
    unit = element.get("unit", "KiB").lower()
    powers = {"b": 0, "byte": 0, "bytes": 0}
    for power, letter in enumerate("kmgtpe", start=1):
        powers |= {letter: power, f"{letter}ib": power}
        if unit == f"{letter}b":
            return decimal(written) * 1000**power
    if unit not in powers:
        raise Impossible(f"{unit!r} is not a unit")
    return decimal(written) * 1024 ** powers[unit]


def up(quantity: int, unit: int) -> int:
    return (quantity + unit - 1) // unit


def members(text: str | None) -> set[int]:
    """Return the members of a list like ``1-4,^3,6`` [formatdomain, "CPU Allocation": cpuset]."""
    result: set[int] = set()
    for part in (text or "").split(","):
        first, _, last = part.strip().lstrip("^").partition("-")
        span = range(decimal(first), decimal(last or first) + 1)
        result = result.difference(span) if part.strip()[0] == "^" else result.union(span)
    return result


def address(parts: Mapping[str, str | None]) -> str:
    """Return the address of a PCI device, as Linux writes it."""
    domain, bus, slot, function = (
        number(parts.get(name) or "0") for name in ("domain", "bus", "slot", "function")
    )
    if bus > 0xFF or slot > 0x1F or function > 7:
        raise Impossible(f"no PCI device has the address {dict(parts)}")
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function}"
