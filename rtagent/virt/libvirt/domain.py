"""What a domain's document says: pure."""

from __future__ import annotations

from lxml import etree

from rtagent.model.base import Value
from rtagent.virt.libvirt.document import BadDocument, integer, parse, text

#: Bytes in a unit, as libvirt's schema names them (its ``scaledInteger``; a bare ``K`` is KiB).
_UNITS = {
    "b": 1,
    "bytes": 1,
    **{
        unit: base**power
        for power, letter in enumerate("KMGTPE", start=1)
        for unit, base in ((letter, 1024), (f"{letter}iB", 1024), (f"{letter}B", 1000))
    },
}
_MIB = 1024**2


class DomainFacts(Value, frozen=True, kw_only=True):
    """What counts of a domain.

    :ivar vcpus: those that it has now, not those that could be plugged in.
    :ivar memory_mb: what it may use without a hot-plug, however far its balloon is inflated; MB,
        rounded up. libvirt's ``<memory>``, which is also the statistics' ``balloon.maximum``.
    :ivar files: paths of its own writable disks that are files.
    """

    vcpus: int
    memory_mb: int
    files: tuple[str, ...] = ()


def parse_domain(document: str) -> DomainFacts:
    """:raises BadDocument: naming what is missing or odd."""
    root = parse(document)
    if root.tag != "domain":
        raise BadDocument(f"<{root.tag}> where <domain> is expected")
    return DomainFacts(vcpus=_vcpus(root), memory_mb=_memory_mb(root), files=_files(root))


def _vcpus(root: etree._Element) -> int:
    vcpu = root.find("vcpu")
    if vcpu is None:
        return 1  # libvirt's default
    return integer(vcpu.get("current", vcpu.text), "<vcpu>")


def _memory_mb(root: etree._Element) -> int:
    unit = root.find("memory")
    name = unit.get("unit", "KiB") if unit is not None else "KiB"
    if name not in _UNITS:
        raise BadDocument(f"<memory> has the unit {name!r}")
    return -(-integer(text(root, "memory"), "<memory>") * _UNITS[name] // _MIB)


def _files(root: etree._Element) -> tuple[str, ...]:
    return tuple(
        source
        for disk in root.iterfind("devices/disk[@type='file']")
        if disk.get("device", "disk") == "disk" and disk.find("readonly") is None
        for source in (_source(disk),)
        if source
    )


def _source(disk: etree._Element) -> str | None:
    source = disk.find("source")
    return source.get("file") if source is not None else None
