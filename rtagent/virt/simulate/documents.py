"""The two documents of a simulated host, from its hardware. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from lxml import etree
from lxml.builder import E

from rtagent.virt.libvirt.hostfile import HOST_INSTRUCTION
from rtagent.virt.simulate.machine import Cpu, Machine

_KIB_IN_MIB = 1024
_NEAR, _FAR = "10", "21"  # distances as firmware commonly states them

#: KiB. Memory is in pages of the smallest size; none of the others are set aside.
_PAGE, _LARGE_PAGES = 4, (2048, 1048576)


def host_document(machine: Machine) -> etree._Element:
    """What libvirt's test driver reads: an empty world of that size."""
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
        E.memory(str(machine.memory_mb * _KIB_IN_MIB)),
    )


def capabilities_document(machine: Machine) -> etree._ElementTree:
    """What libvirt would report, were the machine real; its name in a processing instruction,
    since libvirt's schema has no place for it."""
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
    return root.getroottree()


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
        *(E.pages(unit="KiB", size=str(size)) for size in (_PAGE, *_LARGE_PAGES)),
    )


def _cells(machine: Machine) -> Iterable[etree._Element]:
    kib = machine.memory_mb // machine.numa_cells * _KIB_IN_MIB
    everyone = range(machine.numa_cells)
    for cell in everyone:
        cpus = [cpu for cpu in machine.cpus if cpu.cell == cell]
        yield E.cell(
            E.memory(str(kib), unit="KiB"),
            E.pages(str(kib // _PAGE), unit="KiB", size=str(_PAGE)),
            *(E.pages("0", unit="KiB", size=str(size)) for size in _LARGE_PAGES),
            E.distances(
                *(E.sibling(id=str(i), value=_NEAR if i == cell else _FAR) for i in everyone)
            ),
            E.cpus(*map(_thread, cpus), num=str(len(cpus))),
            id=str(cell),
        )


def _thread(cpu: Cpu) -> etree._Element:
    return E.cpu(
        id=str(cpu.id),
        socket_id=str(cpu.socket),
        die_id="0",
        core_id=str(cpu.core),
        siblings=",".join(map(str, cpu.siblings)),
    )
