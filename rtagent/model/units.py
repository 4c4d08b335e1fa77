"""Units of memory and disk, and conversions between them.

The model counts memory and disk in MB, and memory pages in KiB. As in Nova, the units are binary:
1 MB is 1024 KiB, and 1 GB is 1024 MB.
"""

import re
from collections.abc import Mapping
from decimal import Decimal

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
