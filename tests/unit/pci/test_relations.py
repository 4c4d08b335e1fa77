"""Relations between devices: virtual functions and IOMMU groups."""

from rtagent.model.device import PciDevices
from rtagent.pci.relations import devices_by_iommu_group, virtual_functions, with_related
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
