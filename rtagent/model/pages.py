"""Sizes of memory pages, and requests for them."""

from collections.abc import Iterable
from decimal import Decimal

from rtagent.model.base import MAX_INT
from rtagent.model.units import parse_iec

#: KiB; far larger than the pages of any machine.
MAX_SIZE = MAX_INT

SMALL = "small"
LARGE = "large"
ANY = "any"

#: ``small``, ``large``, ``any``, or a size in KiB.
PageRequest = str | int


class BadPageSize(ValueError):
    """The text is not a page size. The message gives the reason."""


def parse_request(text: str) -> PageRequest:
    """Parse ``hw:mem_page_size``.

    :raises BadPageSize:
    """
    return text if text in (SMALL, LARGE, ANY) else parse_size(text)


def parse_size(text: str) -> int:
    """Return the KiB of a plain number (KiB) or of a number with a unit (``2MB``, ``1GiB``,
    ``16Mbit``).

    :raises BadPageSize:
    """
    size = Decimal(text) if text.isascii() and text.isdecimal() else parse_iec(text)
    if size is None:
        raise BadPageSize(
            f"{text!r} is neither small, large, any, a number of KiB, nor a size with a unit"
            " (2MB, 2MiB, 1GB)"
        )
    if not 0 < size <= MAX_SIZE or size != int(size):
        raise BadPageSize(f"{text!r} is not a number of whole KiB from 1 to {MAX_SIZE}")
    return int(size)


def candidates(request: PageRequest, sizes: Iterable[int]) -> tuple[int, ...]:
    """Return the available sizes (KiB) that meet a request, the largest first."""
    ordered = tuple(sorted(sizes, reverse=True))
    if request == ANY:
        return ordered
    if request == LARGE:
        return ordered[:-1]
    if request == SMALL:
        return ordered[-1:]
    return tuple(size for size in ordered if size == request)


def format_request(request: PageRequest) -> str:
    """Return ``small``, ``large``, ``any``, or the size with its unit."""
    return request if isinstance(request, str) else format_size(request)


def format_size(size_kb: int) -> str:
    """Return ``4KiB``, ``2MiB``, ``1GiB``."""
    for unit, kib in (("GiB", 1024**2), ("MiB", 1024)):
        if size_kb % kib == 0:
            return f"{size_kb // kib}{unit}"
    return f"{size_kb}KiB"
