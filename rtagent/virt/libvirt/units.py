"""Units of memory, as libvirt's documents name them."""

from __future__ import annotations

from lxml import etree

from rtagent.virt.libvirt.document import BadDocument, integer

#: Bytes in a unit (its ``scaledInteger``; a bare ``K`` is KiB).
_UNITS = {
    "b": 1,
    "bytes": 1,
    **{
        unit: base**power
        for power, letter in enumerate("KMGTPE", start=1)
        for unit, base in ((letter, 1024), (f"{letter}iB", 1024), (f"{letter}B", 1000))
    },
}


def in_bytes(element: etree._Element, value: str | None, where: str) -> int:
    """`value`, in the unit that the element gives (KiB unless it does).

    :raises BadDocument: it is no number, or of no unit.
    """
    unit = element.get("unit", "KiB")
    if unit not in _UNITS:
        raise BadDocument(f"{where} has the unit {unit!r}")
    return integer(value, where) * _UNITS[unit]
