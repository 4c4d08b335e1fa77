"""Units of memory and disk, and conversions between them; sizes of memory pages, and requests for
them.

The model counts memory and disk in MB, and memory pages in KiB. As in Nova, the units are binary: 1
MB is 1024 KiB, and 1 GB is 1024 MB.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal

from rtagent.model.base import MAX_INT

KIB_IN_MIB = 1024
#: Flavors and limits give disk in GB. Claims count it in MB.
MB_IN_GB = 1024

BYTES_IN_KIB = 1024
BYTES_IN_MIB = 1024**2
BYTES_IN_GIB = 1024**3

#: Bytes in each unit that a libvirt document may name (libvirt's ``scaledInteger``), in lower case,
#: which it need not have: ``KiB`` and ``K`` are 1024 bytes, ``KB`` is 1000.
LIBVIRT_UNITS: Mapping[str, int] = {
    **dict.fromkeys(("b", "byte", "bytes"), 1),
    **{
        unit: base**power
        for power, letter in enumerate("kmgtpe", start=1)
        for unit, base in ((letter, 1024), (f"{letter}ib", 1024), (f"{letter}b", 1000))
    },
}

#: oslo.utils' IEC units, with which Nova reads page sizes: ``2MB`` and ``2MiB`` are the same,
#: ``2Mb`` is bits, and a number with a prefix alone (``2M``) is not a size.
_IEC = re.compile(r"(?P<number>\d*\.?\d+)(?:(?P<prefix>[KMGTPE])i?)?(?P<unit>b|bit|B)", re.ASCII)
_POWER: dict[str | None, int] = {None: 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def round_up(quantity: int, unit: int) -> int:
    """Return the quantity in whole units, rounded up."""
    return -(-quantity // unit)


def parse_iec(text: str) -> Decimal | None:
    """Return the KiB of a size with a unit (``2MB``, ``1GiB``, ``16Mbit``), or None if the text is
    not such a size.
    """
    match = _IEC.fullmatch(text)
    if match is None:
        return None
    bytes_in_unit = Decimal(1024 ** _POWER[match["prefix"]]) / (1 if match["unit"] == "B" else 8)
    return Decimal(match["number"]) * bytes_in_unit / BYTES_IN_KIB


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
