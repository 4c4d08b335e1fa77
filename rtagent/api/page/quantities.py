"""Quantities as people read them: binary units, and shares of a bar."""

from __future__ import annotations

from functools import lru_cache

from rtagent.model.units import KIB_IN_MIB

#: The multiplication sign.
TIMES = "\u00d7"

#: Sizes that are kept as text: guests of a host have few different ones.
SIZES = 4096

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


@lru_cache(SIZES)
def size(kib: int) -> str:
    """Return a size with at most four digits, for example ``1.5 GiB``; ``0`` needs no unit."""
    if not kib:
        return "0"
    value, unit = float(kib), 0
    while abs(value) >= 1024 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    digits = 0 if value == int(value) or abs(value) >= 100 else 1
    return f"{value:.{digits}f} {_UNITS[unit]}"


def megabytes(number: int) -> str:
    """Return a size, given in MB as everywhere in Nova."""
    return size(number * KIB_IN_MIB)


def share(part: int, whole: int) -> float:
    """Return a part of a bar in percent, from 0 to 100."""
    return round(min(100.0, max(0.0, 100 * part / whole)), 3) if whole else 0.0
