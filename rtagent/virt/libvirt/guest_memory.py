"""Persistent memory in domain documents: build the elements. Pure.

A namespace is an NVDIMM of the guest. Libvirt counts it in the guest's ``<memory>``, and requires
``<maxMemory>`` and a guest cell.
"""

from __future__ import annotations

from collections.abc import Sequence

from lxml import etree
from lxml.builder import E

from rtagent.model.assigned_resources import AssignedResource, PmemNamespace
from rtagent.model.units import KIB_IN_MIB

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
