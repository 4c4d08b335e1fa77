"""The documents of a simulated host."""

import libvirt
import pytest
from lxml import etree

from rtagent.virt.libvirt.capabilities import parse_capabilities, parse_cells
from rtagent.virt.simulate import Machine
from rtagent.virt.simulate.documents import capabilities_document, host_document

MACHINES = [
    Machine(),
    Machine(sockets=1, cores=1, threads=1, memory_mb=1),
    Machine(sockets=2, cores=4, threads=2, memory_mb=4096, cells=1),
    Machine(sockets=2, cores=4, threads=2, memory_mb=4096, cells=4),
    Machine(sockets=3, cores=2, threads=1, memory_mb=4096, cells=2),
    Machine(sockets=2, cores=2, memory_mb=4096, pages={2048: 512, 1048576: 1}),
]


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_libvirt_sees_the_machine(machine, tmp_path):
    file = tmp_path / "host.xml"
    file.write_bytes(etree.tostring(host_document(machine)))
    connection = libvirt.open(f"test://{file}")

    _, memory_mb, cpus, _, nodes, sockets, cores, threads = connection.getInfo()
    connection.close()

    assert memory_mb == machine.memory_mb
    assert cpus == nodes * sockets * cores * threads
    assert cpus == machine.sockets * machine.cores * machine.threads
    assert (nodes, threads) == (machine.numa_cells, machine.threads)


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_the_capabilities_match_the_machine(machine):
    document = etree.tostring(capabilities_document(machine), encoding="unicode")
    host = parse_capabilities(document)

    assert host.cpus == set(range(machine.sockets * machine.cores * machine.threads))
    assert host.hyperthreading == (machine.threads > 1)
    assert host.cpu_info["topology"] == {
        "cells": machine.numa_cells,
        "sockets": machine.sockets,
        "dies": 1,
        "cores": machine.cores,
        "threads": machine.threads,
    }
    assert host.guests == (("x86_64", "test", "hvm"),)


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_the_capabilities_follow_libvirts_schema(machine):
    schema = etree.RelaxNG(etree.parse("/usr/share/libvirt/schemas/capability.rng"))
    schema.assertValid(capabilities_document(machine))


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_the_capabilities_describe_the_cells(machine):
    cells = parse_cells(etree.tostring(capabilities_document(machine), encoding="unicode"))

    assert [cell.id for cell in cells] == list(range(machine.numa_cells))
    for cell in cells:
        here = [cpu for cpu in machine.cpus if cpu.cell == cell.id]
        assert cell.cpus == {cpu.id for cpu in here}
        assert set(cell.siblings) == {frozenset(cpu.siblings) for cpu in here}
        assert cell.sockets == {cpu.socket for cpu in here}
        assert cell.memory_mb == machine.memory_mb // machine.numa_cells
        assert sum(size * count for size, count in cell.pages.items()) == cell.memory_mb * 1024
        assert {size: cell.pages[size] for size in machine.pages} == machine.pages
        assert cell.distances == {other.id: 10 if other is cell else 21 for other in cells}
