"""Parse a domain document. Pure."""

from __future__ import annotations

from lxml import etree

from rtagent.model.base import Value
from rtagent.model.units import BYTES_IN_KIB, BYTES_IN_MIB, round_up
from rtagent.virt.libvirt.confinement import NOWHERE, Confinement, confinement
from rtagent.virt.libvirt.document import BadDocument, child, integer, parse
from rtagent.virt.libvirt.guest_memory import nvdimm_bytes
from rtagent.virt.libvirt.units import in_bytes

#: The largest number that libvirt's API can return.
_MOST_VCPUS = 2**31 - 1


class DomainFacts(Value, frozen=True, kw_only=True):
    """The accounted part of a domain document.

    :ivar vcpus: current vCPUs, without those that could be hot-plugged.
    :ivar memory_mb: memory usable without a hot-plug, in any state of the balloon; MB, rounded up.
        This is libvirt's ``<memory>`` and the statistics' ``balloon.maximum``, each without
        persistent memory.
    :ivar nvdimm_kib: persistent memory, which libvirt counts as memory and ``memory_mb`` does not.
    :ivar files: paths of its own writable disks that are files.
    :ivar confinement: the host resources that it is bound to while it runs.
    """

    vcpus: int
    memory_mb: int
    nvdimm_kib: int = 0
    files: tuple[str, ...] = ()
    confinement: Confinement = NOWHERE


def parse_domain(document: str) -> DomainFacts:
    """Return the facts. :raises BadDocument: names the missing or invalid element."""
    root = parse(document)
    if root.tag != "domain":
        raise BadDocument(f"<{root.tag}> where <domain> is expected")
    nvdimm = nvdimm_bytes(root)
    return DomainFacts(
        vcpus=_vcpus(root),
        memory_mb=_memory_mb(root, nvdimm),
        nvdimm_kib=nvdimm // BYTES_IN_KIB,
        files=_files(root),
        confinement=confinement(root),
    )


def _vcpus(root: etree._Element) -> int:
    vcpu = child(root, "vcpu")
    if vcpu is None:
        return 1  # libvirt's default
    return integer(vcpu.get("current", vcpu.text), "<vcpu>", _MOST_VCPUS)


def _memory_mb(root: etree._Element, nvdimm: int) -> int:
    memory = child(root, "memory")
    if memory is None or not memory.text:
        raise BadDocument("<domain> has no <memory>")
    return round_up(max(0, in_bytes(memory, memory.text, "<memory>") - nvdimm), BYTES_IN_MIB)


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
