"""Sizes of memory pages, and requests for them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal

from rtagent.model.base import MAX_INT

KIB_IN_MIB = 1024
#: KiB; far beyond the pages of any machine.
MAX_SIZE = MAX_INT

SMALL = "small"
LARGE = "large"
ANY = "any"

#: ``small``, ``large``, ``any``, or a size in KiB.
PageRequest = str | int

#: oslo.utils' IEC units, which Nova reads page sizes by: ``2MB`` and ``2MiB`` are the same, ``2Mb``
#: is bits, and a number with a prefix alone (``2M``) is no size.
_SIZE = re.compile(r"(?P<number>\d*\.?\d+)(?:(?P<prefix>[KMGTPE])i?)?(?P<unit>b|bit|B)", re.ASCII)
_POWER: dict[str | None, int] = {None: 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


class BadPageSize(ValueError):
    """The text is no page size; the message says why."""


def parse_request(text: str) -> PageRequest:
    """What ``hw:mem_page_size`` asks for.

    :raises BadPageSize:
    """
    return text if text in (SMALL, LARGE, ANY) else parse_size(text)


def parse_size(text: str) -> int:
    """KiB, of a plain number (KiB) or one with a unit (``2MB``, ``1GiB``, ``16Mbit``).

    :raises BadPageSize:
    """
    size = Decimal(text) if text.isascii() and text.isdecimal() else _with_unit(text)
    if not 0 < size <= MAX_SIZE or size != int(size):
        raise BadPageSize(f"{text!r} is not a number of whole KiB from 1 to {MAX_SIZE}")
    return int(size)


def candidates(request: PageRequest, sizes: Iterable[int]) -> tuple[int, ...]:
    """The sizes (KiB), of those that there are, that meet a request: the largest first."""
    ordered = tuple(sorted(sizes, reverse=True))
    if request == ANY:
        return ordered
    if request == LARGE:
        return ordered[:-1]
    if request == SMALL:
        return ordered[-1:]
    return tuple(size for size in ordered if size == request)


def format_size(size_kb: int) -> str:
    """``4KiB``, ``2MiB``, ``1GiB``."""
    for unit, kib in (("GiB", 1024**2), ("MiB", 1024)):
        if size_kb % kib == 0:
            return f"{size_kb // kib}{unit}"
    return f"{size_kb}KiB"


def _with_unit(text: str) -> Decimal:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise BadPageSize(
            f"{text!r} is neither small, large, any, a number of KiB, nor a size with a unit"
            " (2MB, 2MiB, 1GB)"
        )
    of_one = Decimal(1024 ** _POWER[match["prefix"]]) / (1 if match["unit"] == "B" else 8)
    return Decimal(match["number"]) * of_one / 1024
