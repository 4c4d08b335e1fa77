"""The hardware of a simulated host, and its documents as libvirt's test driver shows them."""

import contextlib

import libvirt
import pytest
from lxml import etree

from rtagent.model.device import SRIOV_PF, SRIOV_VF, STANDARD
from rtagent.virt.libvirt.capabilities import parse_cells
from rtagent.virt.libvirt.node_device_xml import devices, parse_node_device, root_ports
from rtagent.virt.simulate import Machine, SimulationError
from rtagent.virt.simulate.documents import capabilities_document, device_documents, host_document
from rtagent.virt.simulate.machine import LIMITS


def test_cpus_are_numbered_as_linux_does():
    _, *cpus = Machine(sockets=2, cores=2, threads=2, memory_mb=2).cpus
    places = [(c.id, c.cell, c.socket, c.core, c.siblings) for c in cpus[:3]]
    assert places == [(1, 0, 0, 1, (1, 5)), (2, 1, 1, 0, (2, 6)), (3, 1, 1, 1, (3, 7))]


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        ({"sockets": 0}, "sockets = 0"),
        ({"threads": -1}, "threads = -1"),
        ({"memory_mb": 0}, "memory_mb = 0"),
        ({"cells": 0}, "numa_cells = 0"),
        ({"sockets": 1, "cores": 4, "cells": 3}, "4 cores cannot be spread"),
        ({"memory_mb": 1001}, "1001 MB cannot be spread"),
        ({"pages": {4: 1}}, "pages of 4 KiB: the size must be a power of two above 4"),
        ({"pages": {3000: 1}}, "pages of 3000 KiB"),
        ({"pages": {2048: -1}}, "-1 pages of 2048 KiB"),
        ({"memory_mb": 64, "pages": {2048: 17}}, "take 34816 KiB of each cell, which has 32768"),
        ({"hostname": "a b"}, "hostname 'a b'"),
        ({"hostname": "a" * 256}, "only 255 letters"),
        ({"namespaces": {"a": 2**41}}, "is from 1 to 1099511627776 MB"),
        ({"gpus": -1}, "gpus = -1: it must be from 0 to 16"),
        ({"vfs": 257}, "vfs = 257: it must be from 0 to 256"),
        ({"sev_es_guests": 1, "sev_snp_guests": 1}, "SEV-ES do not start on a host with SEV-SNP"),
    ],
)
def test_impossible_hardware_is_refused(odd, message):
    with pytest.raises(SimulationError, match=message):
        Machine(**odd)


MACHINES = [
    Machine(),
    Machine(sockets=1, cores=1, threads=1, memory_mb=1),
    Machine(sockets=2, cores=4, threads=2, memory_mb=4096, cells=1),
    Machine(sockets=2, cores=4, threads=2, memory_mb=4096, cells=4),
    Machine(sockets=3, cores=2, threads=1, memory_mb=4096, cells=2),
    Machine(sockets=2, cores=2, memory_mb=4096, pages={2048: 512, 1048576: 1}),
]


WITH_DEVICES = [
    Machine(gpus=2, nics=1, vfs=8, nvmes=1),
    Machine(sockets=1, cores=1, threads=1, memory_mb=1, **{**LIMITS, "sev_es_guests": 0}),
    Machine(sockets=4, cores=1, threads=1, memory_mb=4, gpus=5, nics=5, vfs=2, nvmes=5),
]


@contextlib.contextmanager
def opened(machine, tmp_path):
    """libvirt's connection to the machine."""
    file = tmp_path / "host.xml"
    file.write_bytes(etree.tostring(host_document(machine)))
    connection = libvirt.open(f"test://{file}")
    yield connection
    connection.close()


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_libvirt_sees_the_machine(machine, tmp_path):
    with opened(machine, tmp_path) as connection:
        _, memory_mb, cpus, _, nodes, sockets, cores, threads = connection.getInfo()
    assert memory_mb == machine.memory_mb
    assert cpus == nodes * sockets * cores * threads
    assert cpus == machine.sockets * machine.cores * machine.threads
    assert (nodes, threads) == (machine.numa_cells, machine.threads)


def schema(name):
    return etree.RelaxNG(etree.parse(f"/usr/share/libvirt/schemas/{name}.rng"))


CAPABILITIES, NODE_DEVICES = schema("capability"), schema("nodedev")


@pytest.mark.parametrize("machine", [*MACHINES, *WITH_DEVICES], ids=str)
def test_the_documents_follow_libvirts_schema(machine):
    CAPABILITIES.assertValid(capabilities_document(machine))
    for document in device_documents(machine):
        # A document of its own: within another one, white space counts.
        NODE_DEVICES.assertValid(etree.fromstring(etree.tostring(document)))


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


def nodes(machine, tmp_path):
    with opened(machine, tmp_path) as connection:
        found = [parse_node_device(each.XMLDesc(0)) for each in connection.listAllDevices(0)]
    return {each.name: each for each in found if each}


def shown(machine, tmp_path):
    return {device.address: device for device in devices(nodes(machine, tmp_path))}


def test_two_gpus_and_a_network_card(tmp_path):
    there = shown(Machine(gpus=2, nics=1, vfs=8, nvmes=1), tmp_path)

    for address, node in (("0000:08:00.0", 0), ("0000:88:00.0", 1)):
        gpu, sound = there[address], there[f"{address[:-1]}1"]
        assert (gpu.vendor_id, gpu.product_id, gpu.dev_type) == ("10de", "13f1", STANDARD)
        assert (gpu.numa_node, gpu.iommu_group) == (node, sound.iommu_group)
    pf = there["0000:20:00.0"]
    assert (pf.dev_type, pf.net_name, pf.numa_node) == (SRIOV_PF, "enp32s0", 0)
    vfs = [each for each in there.values() if each.dev_type == SRIOV_VF]
    assert [vf.address for vf in vfs] == [f"0000:20:02.{n}" for n in range(8)]
    assert {(vf.parent_addr, vf.parent_ifname) for vf in vfs} == {(pf.address, "enp32s0")}
    assert len({each.iommu_group for each in there.values()}) == 2 + 1 + 8 + 1
    assert there["0000:60:00.0"].product_id == "0010"


def test_a_shared_gpu_has_mediated_devices(tmp_path):
    there = shown(Machine(shared_gpus=2), tmp_path)
    cells = {each.address: each.numa_node for each in there.values()}
    assert cells == {"0000:48:00.0": 0, "0000:c8:00.0": 1}
    for gpu in there.values():
        [type_] = gpu.mdev_types
        assert (type_.id, type_.available_instances) == ("nvidia-222", 4)


def test_each_device_is_behind_a_root_port_of_its_cell(tmp_path):
    machine = Machine(gpus=2, nics=1, vfs=2, nvmes=1, shared_gpus=1)
    assert dict(root_ports(nodes(machine, tmp_path))) == {
        "0000:08:00.0": "0000:00:01.0",
        "0000:08:00.1": "0000:00:01.0",
        "0000:88:00.0": "0000:80:01.0",
        "0000:88:00.1": "0000:80:01.0",
        "0000:48:00.0": "0000:00:09.0",
        **dict.fromkeys(("0000:20:00.0", "0000:20:02.0", "0000:20:02.1"), "0000:00:04.0"),
        "0000:60:00.0": "0000:00:0c.0",
    }


@pytest.mark.parametrize("machine", WITH_DEVICES, ids=str)
def test_each_device_has_an_address_and_each_card_a_root_port_of_its_own(machine, tmp_path):
    there = nodes(machine, tmp_path)
    found, ports = devices(there), dict(root_ports(there))
    addresses = {each.address for each in found}
    functions = 2 * machine.gpus + machine.nics * (1 + machine.vfs)
    assert len(addresses) == functions + machine.nvmes + machine.shared_gpus
    assert ports.keys() == addresses
    cards = {each.address[:-1] for each in found if each.parent_addr is None}
    assert len(set(ports.values())) == len(cards)
    assert not set(ports.values()) & addresses
