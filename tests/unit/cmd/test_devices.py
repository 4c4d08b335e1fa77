"""Devices, pools and requests, as a person reads them and as a program does."""

import json

import msgspec

from rtagent.cmd.devices import Devices, Numbers, Pools, Requests, Resources
from rtagent.model.device import Tags
from tests.pci_hosts import GPU_0, gpu, nic, port, record, told_of, vf
from tests.unit.api.given import DB_CLAIM, VGPU, WEB_CLAIM


def document(value):
    return json.loads(msgspec.json.encode(value))


def test_a_device_is_told_with_what_it_is_for():
    held = document((*WEB_CLAIM.pci, *DB_CLAIM.pci))
    assert Devices(held).human_readable().splitlines() == [
        f"{GPU_0} 10de:13f1 type-PCI, NUMA node 0, for gpu",
        f"{vf(0)} 8086:154c type-VF, NUMA node 0, for port-1",
    ]
    assert Devices(held).machine_readable() == held


def test_a_specific_resource_is_told_by_its_class_and_name():
    assert Resources(document(WEB_CLAIM.resources)).human_readable().splitlines() == [
        f"VGPU {VGPU[0]}",
        "CUSTOM_PMEM_NAMESPACE_4GB ns_9",
    ]


def test_a_request_tells_what_it_says():
    requests = document([port("eth0", physical_network=None)])
    assert Requests(requests).human_readable() == (
        "count=1 request_id=eth0 spec=[{'physical_network': None}] source=neutron_port"
        " requester_id=eth0"
    )


def test_a_pool_is_told_with_what_is_said_of_it():
    _, *functions = nic(vfs=2)
    tracked = record([gpu(numa_node=None)]) | record(functions, Tags(trusted=True))
    told = [pool.as_dict() for pool in told_of(tracked)]
    assert Pools(told).human_readable().splitlines() == [
        "1 of 10de:13f1 type-PCI",
        "2 of 8086:154c type-VF, NUMA node 0, parent_ifname=p20, trusted=yes",
    ]
    assert Pools(told).machine_readable() == told


def test_zeros_are_left_out_for_a_person():
    assert Numbers({"available": 2, "claimed": 0}).human_readable() == "available=2"
