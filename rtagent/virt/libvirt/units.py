"""Units of memory in libvirt's documents."""

from __future__ import annotations

from lxml import etree

from rtagent.model.units import LIBVIRT_UNITS
from rtagent.virt.libvirt.document import LARGEST, BadDocument, integer


def in_bytes(element: etree._Element, value: str | None, where: str) -> int:
    """Convert `value` to bytes from the element's ``unit`` (default KiB).

    :raises BadDocument: the value is not a number or too large, or the unit is unknown.
    """
    unit = element.get("unit", "KiB")
    size = LIBVIRT_UNITS.get(unit.lower())
    if size is None:
        raise BadDocument(f"{where}: {unit!r} is not a unit of memory")
    return integer(value, where, LARGEST // size) * size
