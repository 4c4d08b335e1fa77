"""States and availability of devices, derived from device allocations."""

import pytest
from msgspec.structs import replace

from rtagent.model.device import VDPA, PciDevices
from rtagent.pci.allocations import DeviceAllocations
from rtagent.pci.device_users import (
    ALLOCATED,
    AVAILABLE,
    CLAIMED,
    REMOVED,
    UNAVAILABLE,
    UNCLAIMABLE,
)
from tests.support.pci_hosts import (
    GPU_0,
    GPU_1,
    PF_0,
    gpu,
    nic,
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


def test_devices_of_an_iommu_group_are_available_to_one_owner_only():
    devices = record([gpu(GPU_0, iommu_group=7), gpu(GPU_1, iommu_group=7)])
    host = allocations_on(devices, used_by("a", GPU_0))
    assert host.unavailability(GPU_1, "a") is None
    found = host.unavailability(GPU_1, "b")
    assert found.state == UNAVAILABLE
    assert found.reason == f"{GPU_0} of its IOMMU group 7 is held by a"
    assert host.state(GPU_1).state == UNAVAILABLE


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
        assert (last.state, last.reason) == (
            UNAVAILABLE,
            f"{GPU_1} of its IOMMU group 7 is held by b",
        )


def test_quarantined_device_shows_its_reason():
    devices = two_gpus_and_a_nic()
    devices[GPU_0] = replace(devices[GPU_0], quarantine="it overheats")
    state = allocations_on(devices, []).state(GPU_0)
    assert (state.state, state.reason, state.owner_id) == (UNAVAILABLE, "it overheats", None)
    # Its user keeps it.
    assert allocations_on(devices, used_by("a", GPU_0)).state(GPU_0).state == ALLOCATED


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


def test_unrecorded_physical_function_in_use_makes_its_virtual_functions_unavailable():
    pf, *functions = nic(vfs=2)
    recorded = record(functions)
    foreign = used_by("foreign", pf.address)
    assert states(recorded, foreign) == {vf(0): UNAVAILABLE, vf(1): UNAVAILABLE}
