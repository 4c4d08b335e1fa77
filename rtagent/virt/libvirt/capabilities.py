"""Parse a capabilities document: the host, and its NUMA cells. Pure."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar
from uuid import UUID

from lxml import etree
from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.model.cpuset import MAX_CPU, BadCpuSet, format_cpu_spec, parse_cpu_spec
from rtagent.model.topology import Cell
from rtagent.model.units import BYTES_IN_KIB, BYTES_IN_MIB
from rtagent.virt.libvirt.document import LARGEST, BadDocument, in_bytes, integer, parse, text

#: Higher than the numbers of NUMA nodes that Linux supports.
MAX_CELL = 65535

_T = TypeVar("_T")
#: MB, and the number of pages by size (KiB).
_Memory = tuple[int, dict[int, int]]

_NO_MEMORY: _Memory = (0, {})
#: Receives what was set aside, because it cannot be read or contradicts the rest of the document.
Report = Callable[[str], None]


class HostCapabilities(Value, frozen=True, kw_only=True):
    """The host as libvirt describes it.

    :ivar host_uuid: libvirt's host uuid, or "". :ivar cpus: ids of the online CPUs.
    :ivar hyperthreading: whether any core has more than one thread online.
    :ivar cpu: the ``<cpu>`` document.
    :ivar cpu_info: arch, model, vendor, topology, and the features beyond those that the model
        implies.
    :ivar guests: (arch, hypervisor type, vm mode) of each supported type of guest.
    """

    host_uuid: str
    arch: str
    cpus: frozenset[int]
    hyperthreading: bool
    cpu: str
    cpu_info: Mapping[str, Any]
    guests: tuple[tuple[str, str, str], ...]


def parse_capabilities(document: str | bytes) -> HostCapabilities:
    """:raises BadDocument: names the missing or invalid part."""
    root = parse(document)
    host, cpu = root.find("host"), root.find("host/cpu")
    if root.tag != "capabilities" or host is None or cpu is None:
        raise BadDocument("it has no <capabilities> with a <host> and its <cpu>")
    siblings = dict(_online_cpus(host))
    return HostCapabilities(
        host_uuid=_uuid(text(host, "uuid", "")),
        arch=text(cpu, "arch"),
        cpus=frozenset(siblings),
        hyperthreading=any(others != str(cpu_id) for cpu_id, others in siblings.items()),
        cpu=etree.tostring(cpu, encoding="unicode", with_tail=False),
        cpu_info=_cpu_info(host, cpu),
        guests=tuple(_guests(root)),
    )


def feature_names(cpu: etree._Element) -> frozenset[str]:
    """Return the features that a ``<cpu>`` element requires or forces."""
    return frozenset(
        feature.get("name", "")
        for feature in cpu.iterfind("feature")
        if feature.get("policy", "require") in ("require", "force")
    )


def _uuid(written: str) -> str:
    # The name of a lock file contains it.
    try:
        return str(UUID(written)) if written else ""
    except ValueError as error:
        raise BadDocument(f"<uuid> of <host> is {written!r}, not a uuid") from error


def _online_cpus(host: etree._Element) -> Iterator[tuple[int, str]]:
    """Yield each online CPU with its ``siblings``; libvirt has none for an offline CPU."""
    for cpu in host.iterfind("topology/cells/cell/cpus/cpu"):
        siblings = cpu.get("siblings")
        if siblings is not None:
            with suppress(BadDocument):  # `parse_cells` reports it
                yield integer(cpu.get("id"), "<cpu id>", MAX_CPU), siblings


def _cpu_info(host: etree._Element, cpu: etree._Element) -> dict[str, Any]:
    topology = cpu.find("topology")
    counts = {} if topology is None else {str(k): str(v) for k, v in topology.attrib.items()}
    return {
        "arch": text(cpu, "arch"),
        "model": text(cpu, "model", ""),
        "vendor": text(cpu, "vendor", ""),
        "topology": {
            "cells": len(host.findall("topology/cells/cell")),
            **{name: integer(value, f"<topology {name}>") for name, value in counts.items()},
        },
        "features": sorted(feature_names(cpu)),
        **_address_bits(cpu),
    }


def _address_bits(cpu: etree._Element) -> dict[str, Any]:
    """How many physical address bits guests can have, for Nova's image property
    ``hw_maxphysaddr_bits``; empty: libvirt does not say.
    """
    addresses = cpu.find("maxphysaddr")
    if addresses is None or addresses.get("bits") is None:
        return {}
    bits = integer(addresses.get("bits"), "<maxphysaddr bits>")
    return {"maxphysaddr": {"mode": addresses.get("mode", ""), "bits": bits}}


def _guests(root: etree._Element) -> Iterator[tuple[str, str, str]]:
    for guest in root.iterfind("guest"):
        for arch in guest.iterfind("arch"):
            for domain in arch.iterfind("domain"):
                yield arch.get("name", ""), domain.get("type", ""), text(guest, "os_type")


def _ignore(_message: str) -> None:
    """Do nothing."""


def parse_cells(
    document: str | bytes, running: frozenset[int] | None = None, report: Report = _ignore
) -> tuple[Cell, ...]:
    """Return the host's cells in order of their ids; empty when the document has none.

    A cell or a CPU that is listed again is set aside, as with the kernel's parameter
    ``numa=fake``, and so are odd lists of siblings, and what cannot be read: the cell, or its
    memory with all pages, or its distances, or its sockets. No guest gets what is set aside.

    :param running: the host's online CPUs; None: use the document alone. libvirt 9 reports an
        offline CPU as a core of its own on socket 0 (LP2077228).
    :raises BadDocument: the document is not well-formed.
    """
    cells: dict[int, Cell] = {}
    listed = frozenset[int]()
    for element in parse(document).iterfind("host/topology/cells/cell"):
        try:
            cell = _cell(element, running, report)
        except BadDocument as error:
            report(str(error))
            continue
        if cell.id in cells:
            report(f"cell {cell.id} is listed twice")
            continue
        if again := listed & (cell.cpus | cell.offline):
            report(f"cell {cell.id}: CPUs {format_cpu_spec(again)} are listed in another cell, too")
            cell = _without(cell, again)
        listed |= cell.cpus | cell.offline
        cells[cell.id] = cell
    return tuple(cells[number] for number in sorted(cells))


def _without(cell: Cell, cpus: frozenset[int]) -> Cell:
    left = cell.cpus - cpus
    return replace(
        cell,
        cpus=left,
        offline=cell.offline - cpus,
        siblings=tuple(core - cpus for core in cell.siblings if core - cpus),
        sockets=cell.sockets if left else frozenset(),
    )


def _cell(element: etree._Element, running: frozenset[int] | None, report: Report) -> Cell:
    number = integer(element.get("id"), "<cell id>", MAX_CELL)
    where = f"cell {number}"
    listed = element.iterfind("cpus/cpu")
    cpus = {integer(cpu.get("id"), f"{where}: <cpu id>", MAX_CPU): cpu for cpu in listed}
    # Ignore siblings and socket of an offline CPU: libvirt reads both from sysfs, which has them
    # for online CPUs only.
    online = {
        cpu_id: cpu
        for cpu_id, cpu in cpus.items()
        if cpu.get("siblings") is not None and (running is None or cpu_id in running)
    }
    memory_mb, pages = _readable(lambda: _memory(element, where), _NO_MEMORY, report)
    return Cell(
        id=number,
        cpus=frozenset(online),
        offline=frozenset(cpus.keys() - online.keys()),
        memory_mb=memory_mb,
        siblings=_siblings(online, where, report),
        sockets=_readable(lambda: frozenset(_sockets(online, where)), frozenset[int](), report),
        distances=_readable(lambda: dict(_distances(element, where)), {}, report),
        pages=pages,
    )


def _readable(read: Callable[[], _T], otherwise: _T, report: Report) -> _T:
    try:
        return read()
    except BadDocument as error:
        report(str(error))
        return otherwise


def _memory(element: etree._Element, where: str) -> _Memory:
    size = _size(element.find("memory"), f"{where}: <memory>")
    return size // BYTES_IN_MIB, dict(_pages(element, where))


def _sockets(online: dict[int, etree._Element], where: str) -> Iterator[int]:
    for cpu in online.values():
        yield integer(cpu.get("socket_id"), f"{where}: <cpu socket_id>")


def _siblings(
    online: dict[int, etree._Element], where: str, report: Report
) -> tuple[frozenset[int], ...]:
    """Return each core once, without CPUs that are offline or in another cell.

    Two CPUs are on one core if each lists the other. A CPU whose list cannot be read is where the
    other lists have it.
    """
    lists: dict[int, frozenset[int]] = {}
    for number, cpu in online.items():
        try:
            lists[number] = _core(cpu, where) & online.keys() | {number}
        except BadDocument as error:
            report(str(error))
    for number in online.keys() - lists.keys():
        lists[number] = frozenset({number, *(n for n, core in lists.items() if number in core)})
    both = {n: frozenset(m for m in core if n in lists[m]) for n, core in lists.items()}
    cores = {
        n: core if all(both[m] == core for m in core) else frozenset({n})
        for n, core in both.items()
    }
    if odd := [n for n, core in lists.items() if cores[n] != core]:
        report(f"{where}: <cpu siblings> of CPUs {format_cpu_spec(odd)} contradict other CPUs'")
    return tuple(sorted(set(cores.values()), key=min))


def _core(cpu: etree._Element, where: str) -> frozenset[int]:
    try:
        return parse_cpu_spec(cpu.get("siblings", ""))
    except BadCpuSet as error:
        raise BadDocument(f"{where}: <cpu siblings>: {error}") from error


def _distances(element: etree._Element, where: str) -> Iterator[tuple[int, int]]:
    for sibling in element.iterfind("distances/sibling"):
        yield (
            integer(sibling.get("id"), f"{where}: <sibling id>", MAX_CELL),
            integer(sibling.get("value"), f"{where}: <sibling value>"),
        )


def _pages(element: etree._Element, where: str) -> Iterator[tuple[int, int]]:
    for pages in element.iterfind("pages"):
        size = in_bytes(pages, pages.get("size"), f"{where}: <pages size>") // BYTES_IN_KIB
        if not size:
            raise BadDocument(f"{where}: <pages size> is less than 1 KiB")
        yield size, integer(pages.text, f"{where}: <pages>", LARGEST // BYTES_IN_KIB // size)


def _size(element: etree._Element | None, where: str) -> int:
    """Return bytes; 0 without an element, because libvirt omits it for a cell without memory."""
    if element is None:
        return 0
    return in_bytes(element, element.text, where)
