"""Persistent memory in domain documents: build the elements. Pure.

A namespace is an NVDIMM of the guest. Libvirt counts it in the guest's ``<memory>``, and requires
``<maxMemory>`` and a guest cell.
"""

from __future__ import annotations

from collections.abc import Sequence

from lxml import etree
from lxml.builder import E

from rtagent.model.assignment import AssignedResource, CellAssignment, PmemNamespace
from rtagent.model.cpuset import MAX_CPU, format_cpu_spec
from rtagent.model.units import KIB_IN_MIB
from rtagent.virt.libvirt.document import integer
from rtagent.virt.libvirt.given_devices import assigns

#: KiB of a namespace in which the guest keeps its own labels, as in Nova.
LABEL_KB = 2048
#: The guest cell of all namespaces, as in Nova.
_CELL = "0"


def namespaces(resources: Sequence[AssignedResource]) -> tuple[PmemNamespace, ...]:
    """Return the namespaces among assigned resources."""
    return tuple(each.namespace for each in resources if each.namespace is not None)


def namespace_elements(assigned: Sequence[PmemNamespace]) -> tuple[etree._Element, ...]:
    """Return a child of ``<devices>`` for each namespace."""
    return tuple(map(_element, assigned))


def memory_elements(
    memory_mb: int, assigned: Sequence[PmemNamespace]
) -> tuple[etree._Element, ...]:
    """Return the ``<domain>`` children with the size of the guest's memory and its namespaces.

    :param memory_mb: the flavor's memory.
    """
    total = str(memory_mb * KIB_IN_MIB + sum(each.size_kb for each in assigned))
    memory: etree._Element = E.memory(total, unit="KiB")
    if not assigned:
        return (memory,)
    return (E.maxMemory(total, unit="KiB", slots=str(len(assigned))), memory)


def only_cell(vcpus: int, memory_mb: int) -> etree._Element:
    """Return ``<numa>`` for a guest without cells: one with all of its vCPUs and memory."""
    cpus = f"0-{vcpus - 1}" if vcpus > 1 else "0"
    cell = E.cell(id=_CELL, cpus=cpus, memory=str(memory_mb), unit="MiB")
    element: etree._Element = E.numa(cell)
    return element


def has_memory_devices(domain: etree._Element) -> bool:
    """Return whether the guest has memory devices besides namespaces. libvirt refuses them to a
    guest without cells."""
    return not all(map(assigns, domain.iterfind("devices/memory")))


def place_memory(domain: etree._Element, cells: Sequence[CellAssignment]) -> None:
    """Set the host cells and the page sizes that memory devices name to those of their guest cells.

    A device that names none has those of its guest cell already.

    :param cells: by guest cell; empty: the guest's memory is bound to no host cell.
    :raises BadDocument: the number of a guest cell is invalid.
    """
    for device in domain.iterfind("devices/memory"):
        node, source = device.findtext("target/node"), device.find("source")
        if source is None:
            continue
        number = 0 if node is None else integer(node, "<node> of <memory>", MAX_CPU)
        own = cells if node is None else cells[number : number + 1]
        hosts = format_cpu_spec(cell.id for cell in own)
        sizes = {cell.pagesize if cell.hugepages else None for cell in own} - {None}
        replace_child(source, "nodemask", E.nodemask(hosts) if hosts else None)
        replace_child(
            source, "pagesize", E.pagesize(str(*sizes), unit="KiB") if len(sizes) == 1 else None
        )
        if not len(source):
            device.remove(source)


def replace_child(parent: etree._Element, tag: str, new: etree._Element | None) -> None:
    """Replace a child, if there is one; None: remove it."""
    old = parent.find(tag)
    if old is not None and new is not None:
        parent.replace(old, new)
    elif old is not None:
        parent.remove(old)


def _element(namespace: PmemNamespace) -> etree._Element:
    element: etree._Element = E.memory(
        E.source(
            E.path(namespace.path),
            E.alignsize(str(namespace.align_kb), unit="KiB"),
            E.pmem(),
        ),
        E.target(
            E.size(str(namespace.size_kb), unit="KiB"),
            E.node(_CELL),
            E.label(E.size(str(LABEL_KB), unit="KiB")),
        ),
        model="nvdimm",
        access="shared",
    )
    return element
