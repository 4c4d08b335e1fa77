"""Device classes and pools."""

import json

import pytest
from msgspec.structs import replace

from rtagent.model.device import PciDevices, Tags
from rtagent.pci.pools import device_classes
from tests.support.pci_hosts import (
    GPU_0,
    GPU_1,
    PF_0,
    PF_1,
    gpu,
    nic,
    pools_of,
    record,
    two_gpus_and_a_nic,
    used_by,
    vf,
)

ALIKE = record([gpu(GPU_0, 0), gpu(GPU_1, 0)])


def classes(devices) -> list[tuple[str, ...]]:
    return [each.addresses for each in device_classes(PciDevices(devices))]


def counts(devices, allocations=()):
    return [pool.count for pool in pools_of(devices, allocations)]


def test_devices_that_differ_only_in_address_have_one_class():
    devices = record([*nic(PF_1, vfs=2), *nic(PF_0, vfs=2)])
    assert classes(devices) == [
        (PF_0, PF_1),
        (vf(0, PF_0), vf(1, PF_0)),
        (vf(0, PF_1), vf(1, PF_1)),
    ]
    assert classes(ALIKE) == [(GPU_0, GPU_1)]


@pytest.mark.parametrize(
    "difference",
    [
        {"device": gpu(GPU_1, 1)},
        {"device": replace(gpu(GPU_1, 0), vendor_id="8086")},
        {"device": replace(gpu(GPU_1, 0), product_id="1583")},
        {"device": replace(gpu(GPU_1, 0), dev_type="type-VF")},
        {"device": replace(gpu(GPU_1, 0), parent_addr=PF_0)},
        {"device": replace(gpu(GPU_1, 0), parent_ifname="eth0")},
        {"tags": Tags(trusted=True)},
        {"present": False},
        {"listed": False},
        {"quarantine": "odd"},
    ],
)
def test_any_other_difference_makes_another_class(difference):
    devices = ALIKE | {GPU_1: replace(ALIKE[GPU_1], **difference)}
    assert classes(devices) == [(GPU_0,), (GPU_1,)]


def test_iommu_group_does_not_make_another_class():
    devices = ALIKE | {GPU_1: replace(ALIKE[GPU_1], device=gpu(GPU_1, 0, iommu_group=7))}
    assert classes(devices) == [(GPU_0, GPU_1)]


def test_interchangeable_devices_are_counted_in_one_pool():
    found = pools_of(two_gpus_and_a_nic(vfs=4))
    assert [(pool.product_id, pool.numa_node, pool.count) for pool in found] == [
        ("13f1", 0, 1),
        ("1583", 0, 1),
        ("154c", 0, 4),
        ("13f1", 1, 1),
    ]
    assert found[2].addresses == tuple(vf(n) for n in range(4))


def test_only_available_devices_are_counted():
    devices = two_gpus_and_a_nic(vfs=4)
    assert counts(devices, used_by("a", GPU_0)) == [1, 4, 1]
    assert counts(devices, used_by("a", vf(0))) == [1, 3, 1]
    assert counts(devices, used_by("a", PF_0)) == [1, 1]
    devices[GPU_1] = replace(devices[GPU_1], quarantine="odd")
    assert counts(devices) == [1, 1, 4]


def test_as_dict_has_the_layout_of_novas_pools():
    tags = Tags(
        physical_network=None,
        trusted=True,
        managed=False,
        live_migratable=True,
        one_time_use=True,
        resource_class="CUSTOM_A",
        traits=frozenset({"CUSTOM_B", "CUSTOM_C"}),
    )
    (pool,) = pools_of(record([gpu()], tags))
    shown = pool.as_dict()
    assert shown == {
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
    assert json.loads(json.dumps(shown)) == shown
    (plain,) = pools_of(record([gpu()]))
    assert plain.as_dict()["tags"] == {"dev_type": "type-PCI", "remote_managed": "false"}
