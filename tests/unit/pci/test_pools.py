"""Pools."""

import json

from msgspec.structs import replace

from rtagent.model.device import Tags
from tests.pci_hosts import (
    GPU_0,
    GPU_1,
    PF_0,
    gpu,
    held,
    record,
    told_of,
    two_gpus_and_a_nic,
    vf,
)


def counts(devices, holds=()):
    return [pool.count for pool in told_of(devices, holds)]


def test_devices_that_are_alike_are_counted_together():
    found = told_of(two_gpus_and_a_nic(vfs=4))
    assert [(pool.product_id, pool.numa_node, pool.count) for pool in found] == [
        ("13f1", 0, 1),
        ("1583", 0, 1),
        ("154c", 0, 4),
        ("13f1", 1, 1),
    ]
    assert found[2].addresses == tuple(vf(n) for n in range(4))


def test_only_what_may_be_had_is_counted():
    devices = two_gpus_and_a_nic(vfs=4)
    assert counts(devices, held("a", GPU_0)) == [1, 4, 1]
    assert counts(devices, held("a", vf(0))) == [1, 3, 1]
    assert counts(devices, held("a", PF_0)) == [1, 1]
    devices[GPU_1] = replace(devices[GPU_1], quarantine="odd")
    assert counts(devices) == [1, 1, 4]


def test_what_is_said_of_devices_tells_them_apart():
    devices = record([gpu(GPU_0, 0)]) | record([gpu(GPU_1, 0)], Tags(trusted=True))
    assert counts(devices) == [1, 1]


def test_as_a_scheduler_is_told():
    tags = Tags(
        physical_network=None,
        trusted=True,
        managed=False,
        live_migratable=True,
        one_time_use=True,
        resource_class="CUSTOM_A",
        traits=frozenset({"CUSTOM_B", "CUSTOM_C"}),
    )
    (pool,) = told_of(record([gpu()], tags))
    told = pool.as_dict()
    assert told == {
        "vendor_id": "10de",
        "product_id": "13f1",
        "numa_node": 0,
        "count": 1,
        "tags": {
            "dev_type": "type-PCI",
            "physical_network": None,
            "trusted": "yes",
            "remote_managed": "false",
            "managed": "no",
            "live_migratable": "yes",
            "one_time_use": "yes",
            "resource_class": "CUSTOM_A",
            "traits": "CUSTOM_B,CUSTOM_C",
        },
    }
    assert json.loads(json.dumps(told)) == told
    (plain,) = told_of(record([gpu()]))
    assert plain.as_dict()["tags"] == {"dev_type": "type-PCI", "remote_managed": "false"}
