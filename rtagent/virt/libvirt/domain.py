"""Parse a domain document. Pure."""

from __future__ import annotations

from functools import partial

from lxml import etree
from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.model.domain_usage import EVERY_KIND
from rtagent.model.units import BYTES_IN_KIB, BYTES_IN_MIB, round_up
from rtagent.virt.libvirt.backed_memory import excluded_bytes, sum_bytes
from rtagent.virt.libvirt.confinement import NOWHERE, Confinement, confinement
from rtagent.virt.libvirt.document import BadDocument, child, integer, parse
from rtagent.virt.libvirt.units import in_bytes
from rtagent.virt.libvirt.unread import Unread

#: The largest number that libvirt's API can return.
_MOST_VCPUS = 2**31 - 1


class DomainFacts(Value, frozen=True, kw_only=True):
    """The accounted part of a domain document.

    :ivar vcpus: current vCPUs, without those that could be hot-plugged; None: unknown.
    :ivar memory_mb: memory usable without a hot-plug, in any state of the balloon; MB, rounded up.
        This is libvirt's ``<memory>`` and the statistics' ``balloon.maximum``, each without
        `excluded_kib`. None: unknown.
    :ivar excluded_kib: what libvirt counts as memory and is not memory of the host: persistent
        memory, and memory of SGX.
    :ivar files: paths of its own writable disks that are files.
    :ivar confinement: the host resources that it is bound to while it runs.
    :ivar problems: a text for each element that cannot be read.
    """

    vcpus: int | None
    memory_mb: int | None
    excluded_kib: int = 0
    files: tuple[str, ...] = ()
    confinement: Confinement = NOWHERE
    problems: tuple[str, ...] = ()


#: The facts of a domain of whose document nothing can be read.
UNREADABLE = DomainFacts(vcpus=None, memory_mb=None, confinement=Confinement(unknown=EVERY_KIND))


def parse_domain(document: str) -> DomainFacts:
    """Return the facts that can be read, and a problem for each element that cannot."""
    try:
        root = parse(document)
    except BadDocument as error:
        return replace(UNREADABLE, problems=(str(error),))
    if root.tag != "domain":
        problem = f"<{root.tag}> where <domain> is expected"
        return replace(UNREADABLE, problems=(problem,))
    unread = Unread()
    excluded = excluded_bytes(root, unread)
    return DomainFacts(
        vcpus=next(unread.each(_vcpus, [root]), None),
        memory_mb=next(unread.each(partial(_memory_mb, excluded=excluded), [root]), None),
        excluded_kib=excluded // BYTES_IN_KIB,
        files=_files(root),
        confinement=confinement(root, unread),
        problems=tuple(unread.problems),
    )


def _vcpus(root: etree._Element) -> int:
    vcpu = child(root, "vcpu")
    if vcpu is None:
        return 1  # libvirt's default
    return integer(vcpu.get("current", vcpu.text), "<vcpu>", _MOST_VCPUS)


def _memory_mb(root: etree._Element, excluded: int) -> int:
    memory = child(root, "memory")
    if memory is None or not memory.text:
        total = sum_bytes(root)
    else:
        total = in_bytes(memory, memory.text, "<memory>")
    return round_up(max(0, total - excluded), BYTES_IN_MIB)


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
