"""Which provider counts a device, and what cannot be counted together."""

import json

import pytest
from msgspec.structs import replace

from rtagent.errors import PciConfigInvalidSpec
from rtagent.model.device import SRIOV_VF, VDPA, Tags
from rtagent.model.pci_policy import PciPolicy
from rtagent.pci.reporting import addressed, counted, traits, unreported
from rtagent.pci.spec import parse_specs
from tests.pci_hosts import GPU_0, GPU_IDS, PF_0, PF_IDS, VF_IDS, gpu, nic, record, vf

PF, *VFS = nic(vfs=3)


def told(*devices):
    """Addresses by provider, and the keys of what is left over."""
    groups, misfits = counted(devices)
    return (
        {group.address: [each.address for each in group.devices] for group in groups},
        [(misfit.address, misfit.key) for misfit in misfits],
    )


def offered(device, **tags):
    return record([device], Tags(**tags))[device.address]


def wrong(*specs, devices, report=True):
    policy = PciPolicy(specs=parse_specs(map(json.dumps, specs)), report_in_placement=report)
    return [str(each) for each in unreported(policy, devices)]


def test_a_device_has_its_own_provider_and_virtual_functions_share_one():
    assert told(offered(gpu()), *map(offered, VFS)) == (
        {GPU_0: [GPU_0], PF_0: [vf(0), vf(1), vf(2)]},
        [],
    )


def test_a_physical_function_has_its_own():
    assert told(offered(PF)) == ({PF_0: [PF_0]}, [])


def test_a_vdpa_device_is_a_virtual_function():
    assert told(offered(replace(VFS[0], dev_type=VDPA))) == ({PF_0: [vf(0)]}, [])


@pytest.mark.parametrize("network", ["physnet1", None])
def test_what_ports_are_given_is_not_counted(network):
    assert told(offered(VFS[0], physical_network=network), offered(VFS[1])) == (
        {PF_0: [vf(1)]},
        [],
    )


def test_a_virtual_function_beside_its_physical_one_is_left_over():
    assert told(offered(VFS[0]), offered(PF)) == ({PF_0: [PF_0]}, [(vf(0), "address")])


@pytest.mark.parametrize(
    ("tags", "key"),
    [
        ({"resource_class": "CUSTOM_FAST"}, "resource_class"),
        ({"traits": frozenset({"CUSTOM_FAST"})}, "traits"),
        ({"live_migratable": True}, "traits"),
    ],
)
def test_a_virtual_function_that_is_told_of_otherwise_is_left_over(tags, key):
    assert told(offered(VFS[1], **tags), offered(VFS[0])) == ({PF_0: [vf(0)]}, [(vf(1), key)])


def test_what_is_offered_goes_before_what_is_merely_held():
    held = replace(offered(VFS[0], resource_class="CUSTOM_OLD"), listed=False)
    assert told(held, offered(VFS[1])) == ({PF_0: [vf(1)]}, [(vf(0), "resource_class")])


def test_traits_are_those_of_the_specification_and_of_its_tags():
    plain = {"COMPUTE_MANAGED_PCI_DEVICE", "OWNER_NOVA"}
    assert traits(Tags()) == plain
    assert traits(Tags(traits=frozenset({"CUSTOM_A"}), one_time_use=True)) == {
        *plain,
        "CUSTOM_A",
        "HW_PCI_ONE_TIME_USE",
    }


# -- what the operator is told --------------------------------------------------------------------


def test_a_name_instead_of_an_address():
    specs = parse_specs(['{"vendor_id": "10de"}', '{"devname": "p20"}'])
    addressed(specs[:1])
    with pytest.raises(PciConfigInvalidSpec) as caught:
        addressed(specs)
    assert str(caught.value) == (
        "[pci] device_spec 1: devname = p20: is not combined with report_in_placement:"
        " name the address"
    )


def test_a_physical_function_with_its_virtual_ones():
    assert wrong(GPU_IDS, PF_IDS, VF_IDS, devices=[PF, VFS[0]]) == [
        f"[pci] device_spec 2: address = {vf(0)}: is of one card with {PF_0}:"
        " report_in_placement takes only one of the two"
    ]


def test_two_classes_and_two_sets_of_traits_below_one_physical_function():
    first = {**VF_IDS, "address": vf(0), "resource_class": "CUSTOM_A"}
    second = {**VF_IDS, "address": vf(1), "traits": "fast"}
    third = {**VF_IDS, "resource_class": "a", "traits": "fast"}
    rule = "is not that of 0000:20:02.0: report_in_placement takes one a card"
    assert wrong(first, second, third, devices=VFS) == [
        f"[pci] device_spec 1: resource_class = CUSTOM_PCI_8086_154C: of {vf(1)} {rule}",
        "[pci] device_spec 2: traits = COMPUTE_MANAGED_PCI_DEVICE,CUSTOM_FAST,OWNER_NOVA:"
        f" of {vf(2)} {rule}",
    ]


def test_without_the_option_all_of_it_is_allowed():
    assert wrong(PF_IDS, VF_IDS, devices=[PF, *VFS], report=False) == []


def test_what_is_not_offered_is_not_judged():
    once = {**VF_IDS, "one_time_use": "yes", "resource_class": "CUSTOM_A"}
    assert {each.dev_type for each in VFS} == {SRIOV_VF}
    assert wrong(once, PF_IDS, devices=[PF, *VFS]) == []
    assert wrong(PF_IDS, devices=[PF, *VFS]) == []
