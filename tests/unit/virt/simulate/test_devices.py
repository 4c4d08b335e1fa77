"""The devices of a simulated machine, as libvirt's test driver shows them."""

import libvirt
import pytest
from lxml import etree

from rtagent.model.device import SRIOV_PF, SRIOV_VF, STANDARD
from rtagent.virt.libvirt.node_device_xml import devices, parse_node_device, root_ports
from rtagent.virt.simulate import Machine
from rtagent.virt.simulate.documents import device_documents, host_document

MACHINES = [
    Machine(gpus=2, nics=1, vfs=8, nvmes=1),
    Machine(
        sockets=1,
        cores=1,
        threads=1,
        memory_mb=1,
        gpus=16,
        nics=16,
        vfs=256,
        nvmes=16,
        shared_gpus=16,
    ),
    Machine(sockets=4, cores=1, threads=1, memory_mb=4, gpus=5, nics=5, vfs=2, nvmes=5),
]


def nodes(machine, tmp_path):
    file = tmp_path / "host.xml"
    file.write_bytes(etree.tostring(host_document(machine)))
    connection = libvirt.open(f"test://{file}")
    try:
        found = [parse_node_device(each.XMLDesc(0)) for each in connection.listAllDevices(0)]
    finally:
        connection.close()
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
    assert {each.address: each.numa_node for each in there.values()} == {
        "0000:48:00.0": 0,
        "0000:c8:00.0": 1,
    }
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


@pytest.mark.parametrize("machine", MACHINES, ids=str)
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


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_the_documents_follow_libvirts_schema(machine):
    schema = etree.RelaxNG(etree.parse("/usr/share/libvirt/schemas/nodedev.rng"))
    for document in device_documents(machine):
        # A document of its own: within another one, white space counts.
        schema.assertValid(etree.fromstring(etree.tostring(document)))


def test_a_machine_without_devices_has_none():
    assert list(device_documents(Machine())) == []
