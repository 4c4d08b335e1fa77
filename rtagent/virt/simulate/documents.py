"""Build the two documents of a simulated host from its hardware. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lxml import etree

from rtagent.model.units import BYTES_IN_MIB, KIB_IN_MIB
from rtagent.virt.libvirt.document import E
from rtagent.virt.libvirt.hostfile import (
    FEATURES_INSTRUCTION,
    HOST_INSTRUCTION,
    NAMESPACES_INSTRUCTION,
)
from rtagent.virt.simulate.devices import device_documents
from rtagent.virt.simulate.machine import SMALLEST_PAGE, HardwareThread, Machine

_NEAR, _FAR = "10", "21"  # distances that firmware commonly reports

#: Sizes (KiB) of the larger pages that the CPU supports, including sizes of which no page is
#: reserved.
_LARGE_PAGES = (2048, 1048576)

#: Bytes at which the devices of persistent memory are aligned.
_DAX_ALIGN = 2 * BYTES_IN_MIB


def host_document(machine: Machine) -> etree._Element:
    """Build the file that libvirt's test driver reads: hardware and devices, without domains."""
    cells = machine.numa_cells
    sockets = max(1, machine.sockets // cells)
    return E.node(
        E.cpu(
            E.mhz("2600"),
            E.model("x86_64"),
            E.active(str(machine.sockets * machine.cores * machine.threads)),
            E.nodes(str(cells)),
            E.sockets(str(sockets)),
            E.cores(str(machine.sockets * machine.cores // (cells * sockets))),
            E.threads(str(machine.threads)),
        ),
        E.memory(str(machine.memory_mb * KIB_IN_MIB)),
        *device_documents(machine),
    )


def capabilities_document(machine: Machine) -> etree._ElementTree:
    """Build the document that libvirt would report for real hardware. The host name is in a
    processing instruction, since libvirt's schema has no element for it."""
    root = E.capabilities(
        E.host(
            _cpu(machine),
            E.topology(E.cells(*_cells(machine), num=str(machine.numa_cells))),
        ),
        E.guest(
            E.os_type("hvm"),
            E.arch(
                E.wordsize("64"),
                E.emulator("/usr/bin/test-hv"),
                E.domain(type="test"),
                name="x86_64",
            ),
        ),
    )
    root.addprevious(etree.ProcessingInstruction(HOST_INSTRUCTION, f'name="{machine.hostname}"'))
    if machine.namespaces:
        listed = json.dumps(list(_namespaces(machine)))
        root.addprevious(etree.ProcessingInstruction(NAMESPACES_INSTRUCTION, listed))
    if machine.sev_guests or machine.sev_es_guests:
        features = etree.tostring(_sev(machine), encoding="unicode")
        root.addprevious(etree.ProcessingInstruction(FEATURES_INSTRUCTION, features))
    return root.getroottree()


def _sev(machine: Machine) -> etree._Element:
    """Build the part of domain capabilities that describes AMD SEV."""
    return E.features(
        E.sev(
            E.cbitpos("51"),
            E.reducedPhysBits("1"),
            E.maxGuests(str(machine.sev_guests)),
            E.maxESGuests(str(machine.sev_es_guests)),
            supported="yes",
        )
    )


def _namespaces(machine: Machine) -> Iterator[Mapping[str, Any]]:
    """Yield the namespaces as ``ndctl list -X`` shows them."""
    for number, (name, size_mb) in enumerate(machine.namespaces.items()):
        size = size_mb * BYTES_IN_MIB
        device = {"chardev": f"dax{number}.0", "size": size}
        region = {"id": number, "size": size, "align": _DAX_ALIGN, "devices": [device]}
        mode = {"dev": f"namespace{number}.0", "mode": "devdax", "size": size}
        yield {**mode, "daxregion": region, "name": name}


def _cpu(machine: Machine) -> etree._Element:
    return E.cpu(
        E.arch("x86_64"),
        E.model("Cascadelake-Server-noTSX"),
        E.vendor("Intel"),
        E.topology(
            sockets=str(machine.sockets),
            dies="1",
            cores=str(machine.cores),
            threads=str(machine.threads),
        ),
        *(E.pages(unit="KiB", size=str(size)) for size in _pools(machine)),
    )


def _cells(machine: Machine) -> Iterable[etree._Element]:
    pools = _pools(machine)
    cells = range(machine.numa_cells)
    for cell in cells:
        cpus = [cpu for cpu in machine.cpus if cpu.cell == cell]
        yield E.cell(
            E.memory(str(machine.cell_kib), unit="KiB"),
            *(E.pages(str(n), unit="KiB", size=str(size)) for size, n in pools.items()),
            E.distances(*(E.sibling(id=str(i), value=_NEAR if i == cell else _FAR) for i in cells)),
            E.cpus(*map(_thread, cpus), num=str(len(cpus))),
            id=str(cell),
        )


def _pools(machine: Machine) -> dict[int, int]:
    """Return the number of pages of each cell by size (KiB), smallest size first."""
    rest = (machine.cell_kib - machine.paged_kib) // SMALLEST_PAGE
    larger = {**dict.fromkeys(_LARGE_PAGES, 0), **machine.pages}
    return {SMALLEST_PAGE: rest, **dict(sorted(larger.items()))}


def _thread(cpu: HardwareThread) -> etree._Element:
    return E.cpu(
        id=str(cpu.id),
        socket_id=str(cpu.socket),
        die_id="0",
        core_id=str(cpu.core),
        siblings=",".join(map(str, cpu.siblings)),
    )
