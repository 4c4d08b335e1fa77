"""States, availability and pools of devices, derived from device allocations."""

import sys

import pytest
from msgspec.structs import replace

from rtagent.model.device import VDPA, PciDevices, Tags
from rtagent.pci import allocations as module
from rtagent.pci.allocations import DeviceAllocations, all_allocations
from rtagent.pci.device_users import (
    ALLOCATED,
    AVAILABLE,
    CLAIMED,
    REMOVED,
    UNAVAILABLE,
    UNCLAIMABLE,
    with_related,
)
from tests.support.device_states import with_builds
from tests.support.hosts import host, request
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


def allocations_on(devices, allocations):
    return DeviceAllocations(PciDevices(devices), allocations)


def states(devices, allocations):
    host = allocations_on(devices, allocations)
    return {address: host.state(address).state for address in devices}


@pytest.mark.parametrize(
    ("allocations", "expected"),
    [
        ([], {}),
        (used_by("a", GPU_0), {GPU_0: ALLOCATED}),
        (used_by("a", GPU_0, allocated=False), {GPU_0: CLAIMED}),
        (used_by("a", GPU_0, allocated=False) + used_by("a", GPU_0), {GPU_0: ALLOCATED}),
        (
            used_by("a", PF_0, allocated=False),
            {PF_0: CLAIMED, vf(0): UNCLAIMABLE, vf(1): UNCLAIMABLE},
        ),
        (used_by("a", PF_0), {PF_0: ALLOCATED, vf(0): UNAVAILABLE, vf(1): UNAVAILABLE}),
        (used_by("a", vf(0), allocated=False), {vf(0): CLAIMED, PF_0: UNCLAIMABLE}),
        (used_by("a", vf(0)), {vf(0): ALLOCATED, PF_0: UNAVAILABLE}),
        (
            used_by("a", vf(0)) + used_by("b", vf(1)),
            dict.fromkeys((vf(0), vf(1)), ALLOCATED) | {PF_0: UNAVAILABLE},
        ),
    ],
)
def test_states_are_derived_from_allocations(allocations, expected):
    devices = two_gpus_and_a_nic(vfs=2)
    assert states(devices, allocations) == dict.fromkeys(devices, AVAILABLE) | expected


def test_vdpa_device_counts_as_virtual_function():
    pf, first, second = nic(vfs=2)
    devices = record([pf, replace(first, dev_type=VDPA), second])
    assert states(devices, used_by("a", first.address))[PF_0] == UNAVAILABLE
    assert states(devices, used_by("a", PF_0))[first.address] == UNAVAILABLE


def test_order_of_allocations_does_not_change_the_reason():
    building, running = used_by("a", vf(0), allocated=False), used_by("b", vf(1))
    devices = record([gpu(GPU_0, iommu_group=7), *nic(vfs=2)])
    others = record([gpu(GPU_1, iommu_group=7), gpu("0000:89:00.0", iommu_group=7)])
    group = used_by("a", GPU_0, allocated=False) + used_by("b", GPU_1)
    for allocations in (building + running + group, group[::-1] + running + building):
        host = allocations_on(devices | others, allocations)
        assert host.state(PF_0).state == UNAVAILABLE
        assert host.state(PF_0).reason == f"its virtual function {vf(1)} is held by b"
        last = host.state("0000:89:00.0")
        status = (last.state, last.reason)
        assert status == (UNAVAILABLE, f"{GPU_1} of its IOMMU group 7 is held by b")
    for held in (used_by("a", vf(0)) + running, running + used_by("a", vf(0))):
        reason = allocations_on(devices, held).state(PF_0).reason
        assert reason == f"its virtual function {vf(0)} is held by a"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"present": False}, "it has left the host"),
        ({"listed": False}, "no device_spec matches it any more"),
    ],
)
def test_absent_device_keeps_its_user_with_a_reason_and_is_otherwise_removed(change, reason):
    devices = two_gpus_and_a_nic()
    devices[GPU_0] = replace(devices[GPU_0], **change)
    used = allocations_on(devices, used_by("a", GPU_0)).state(GPU_0)
    assert (used.state, used.owner_id, used.reason) == (ALLOCATED, "a", reason)
    free = allocations_on(devices, []).state(GPU_0)
    assert (free.state, free.owner_id, free.reason) == (REMOVED, None, reason)


def test_related_devices_are_functions_and_members_of_the_iommu_group():
    groups = [gpu(GPU_0, iommu_group=7), gpu(GPU_1, iommu_group=7)]
    devices = PciDevices(record([*groups, *nic(PF_0, vfs=2), *nic(PF_1, vfs=1)]))
    assert with_related(devices, [GPU_0]) == {GPU_0, GPU_1}
    assert with_related(devices, [PF_0]) == {PF_0, vf(0), vf(1)}
    assert with_related(devices, [vf(0)]) == {PF_0, vf(0)}


# --- a claim examines many devices and guests ---


def test_a_device_without_a_related_one_in_use_costs_no_search(monkeypatch):
    groups = [gpu(GPU_0, iommu_group=7), gpu(GPU_1, iommu_group=8)]
    devices = record([*groups, *nic(PF_0, vfs=1), *nic(PF_1, vfs=1)])
    used = allocations_on(devices, used_by("a", GPU_0, vf(0)))
    monkeypatch.delattr(module, "_most_lasting")
    free = (GPU_1, PF_1, vf(0, PF_1))
    assert [used.unavailability(address) for address in free] == [None] * len(free)


def test_guests_without_devices_cost_no_calls():
    def calls_with(guests):
        builds = [request(1, 64) for _ in range(guests)]
        state, made = with_builds(host(cpu_allocation_ratio=16), *builds), []
        sys.setprofile(lambda _, event, __: made.append(event))
        try:
            assert not list(all_allocations(state))
        finally:
            sys.setprofile(None)
        return made.count("call")

    assert calls_with(20) == calls_with(2)


# --- pools of available devices ---


def test_interchangeable_devices_are_counted_in_one_pool():
    found = [pool.as_dict() for pool in pools_of(two_gpus_and_a_nic(vfs=4))]
    pools = [(pool["product_id"], pool["numa_node"], pool["count"]) for pool in found]
    assert pools == [("13f1", 0, 1), ("1583", 0, 1), ("154c", 0, 4), ("13f1", 1, 1)]


def test_as_dict_has_the_layout_of_novas_pools():
    flags = {"trusted": True, "managed": False, "live_migratable": True, "one_time_use": True}
    names = {"resource_class": "CUSTOM_A", "traits": frozenset({"CUSTOM_B", "CUSTOM_C"})}
    (pool,) = pools_of(record([gpu()], Tags(physical_network=None, **flags, **names)))
    words = {"trusted": "yes", "managed": "no", "live_migratable": "yes", "one_time_use": "yes"}
    names = {"resource_class": "CUSTOM_A", "traits": "CUSTOM_B,CUSTOM_C"}
    plain = {"dev_type": "type-PCI"}
    tags = {**plain, "physical_network": None, **words, **names}
    ids = {"vendor_id": "10de", "product_id": "13f1"}
    assert pool.as_dict() == {**ids, "numa_node": 0, "count": 1, "tags": tags}
    (pool,) = pools_of(record([gpu()]))
    assert pool.as_dict()["tags"] == plain
    (pool,) = pools_of(record(nic(vfs=0)))
    assert pool.as_dict()["tags"] == {"dev_type": "type-PF", "remote_managed": "false"}
