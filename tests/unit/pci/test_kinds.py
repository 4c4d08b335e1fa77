"""Kinds of devices, and who is whose relative."""

import pytest
from msgspec.structs import replace

from rtagent.model.device import Tags
from rtagent.model.pci_devices import PciDevices
from rtagent.pci.kinds import kinds
from rtagent.pci.kinship import members, parts
from tests.pci_hosts import GPU_0, GPU_1, PF_0, PF_1, gpu, nic, record, vf

ALIKE = record([gpu(GPU_0, 0), gpu(GPU_1, 0)])


def addresses(devices) -> list[tuple[str, ...]]:
    return [kind.addresses for kind in kinds(PciDevices(devices))]


def test_devices_that_differ_in_their_addresses_alone_are_of_one_kind():
    devices = record([*nic(PF_1, vfs=2), *nic(PF_0, vfs=2)])
    assert addresses(devices) == [
        (PF_0, PF_1),
        (vf(0, PF_0), vf(1, PF_0)),
        (vf(0, PF_1), vf(1, PF_1)),
    ]
    assert addresses(ALIKE) == [(GPU_0, GPU_1)]


@pytest.mark.parametrize(
    "other",
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
def test_whatever_else_differs_makes_another_kind(other):
    assert addresses(ALIKE | {GPU_1: replace(ALIKE[GPU_1], **other)}) == [(GPU_0,), (GPU_1,)]


def test_an_iommu_group_makes_no_kind():
    grouped = ALIKE | {GPU_1: replace(ALIKE[GPU_1], device=gpu(GPU_1, 0, iommu_group=7))}
    assert addresses(grouped) == [(GPU_0, GPU_1)]
    assert members(PciDevices(grouped)) == {7: [GPU_1]}


def test_functions_are_known_by_their_physical_one_even_where_that_is_not():
    _, *functions = nic(vfs=2)
    assert parts(PciDevices(record(functions))) == {PF_0: [vf(0), vf(1)]}
