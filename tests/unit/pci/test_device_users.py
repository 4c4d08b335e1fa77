"""How devices are related, and who uses them."""

import pytest

from rtagent.model.device import PciDevices
from rtagent.pci.device_users import (
    DeviceAllocation,
    devices_by_iommu_group,
    users_of,
    virtual_functions,
    with_related,
)
from tests.support.pci_hosts import GPU_0, GPU_1, PF_0, PF_1, gpu, nic, record, vf


def test_iommu_group_has_its_members():
    devices = PciDevices(record([gpu(GPU_0), gpu(GPU_1, iommu_group=7)]))
    assert devices_by_iommu_group(devices) == {7: [GPU_1]}


def test_virtual_functions_of_an_unrecorded_physical_function_are_known():
    _, *functions = nic(vfs=2)
    assert virtual_functions(PciDevices(record(functions))) == {PF_0: [vf(0), vf(1)]}


def test_related_devices_are_functions_and_members_of_the_iommu_group():
    groups = [gpu(GPU_0, iommu_group=7), gpu(GPU_1, iommu_group=7)]
    devices = PciDevices(record([*groups, *nic(PF_0, vfs=2), *nic(PF_1, vfs=1)]))
    assert with_related(devices, [GPU_0]) == {GPU_0, GPU_1}
    assert with_related(devices, [PF_0]) == {PF_0, vf(0), vf(1)}
    assert with_related(devices, [vf(0)]) == {PF_0, vf(0)}


def test_related_devices_are_only_recorded_ones():
    _, *functions = nic(vfs=2)
    devices = PciDevices(record(functions))
    assert with_related(devices, [PF_0]) == {vf(0), vf(1)}
    assert with_related(devices, [vf(0)]) == {vf(0)}


DEVICES = PciDevices(record([gpu(GPU_0, 0, iommu_group=1), gpu(GPU_1, 1, iommu_group=1), *nic()]))


def use(address, owner):
    return DeviceAllocation(address=address, owner_id=owner, allocated=False)


BEFORE = (use(GPU_1, "a"), use(vf(1), "a"), use(vf(0), "b"), use(vf(0), "c"))


def test_allocations_are_found_by_each_key():
    users = users_of(DEVICES, BEFORE)
    assert users.by_device[vf(0)] == (use(vf(0), "b"), use(vf(0), "c"))
    assert dict(users.by_owner) == {"a": {GPU_1, vf(1)}, "b": {vf(0)}, "c": {vf(0)}}
    assert dict(users.by_function) == {PF_0: [vf(0), vf(1)]}
    assert dict(users.by_group) == {1: [GPU_1]}


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {vf(0): ()},
        {vf(0): ("c",), vf(2): ("a",)},
        {vf(0): (), vf(1): (), GPU_1: ()},
        {GPU_0: ("a", "b"), vf(1): ("d",)},
        {PF_0: ("e",)},
        {"0000:99:00.0": ("a",)},  # a device that is not recorded
    ],
)
def test_users_after_a_change_equal_those_made_anew(changed):
    allocations = {
        address: tuple(use(address, owner) for owner in owners)
        for address, owners in changed.items()
    }
    others = [each for each in BEFORE if each.address not in changed]
    anew = users_of(DEVICES, [*others, *(e for of in allocations.values() for e in of)])
    assert users_of(DEVICES, BEFORE).changed(DEVICES, allocations) == anew
