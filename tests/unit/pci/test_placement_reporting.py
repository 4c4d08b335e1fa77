"""Which provider reports a device to Placement, and which devices cannot be reported."""

import json

import pytest

from rtagent.errors import PciConfigInvalidSpec
from rtagent.model.device import SRIOV_VF, Tags
from rtagent.model.policy import PciPolicy
from rtagent.pci.placement_reporting import check_no_devname, placement_errors, provider_devices
from rtagent.pci.specs import parse_specs
from tests.support.pci_hosts import GPU_IDS, PF_0, PF_IDS, VF_IDS, nic, record, vf

PF, *VFS = nic(vfs=3)


def reported(*devices):
    """Return addresses by provider, and the addresses and keys of unreportable devices."""
    providers, unreportable = provider_devices(devices)
    addresses = {each.address: [device.address for device in each.devices] for each in providers}
    return addresses, [(each.address, each.key) for each in unreportable]


def tagged(device, **tags):
    return record([device], Tags(**tags))[device.address]


def errors(*specs, devices, report=True):
    policy = PciPolicy(specs=parse_specs(map(json.dumps, specs)), report_in_placement=report)
    return [str(each) for each in placement_errors(policy, devices)]


@pytest.mark.parametrize("network", ["physnet1", None])
def test_devices_with_a_physical_network_are_not_reported(network):
    devices = reported(tagged(VFS[0], physical_network=network), tagged(VFS[1]))
    assert devices == ({PF_0: [vf(1)]}, [])


@pytest.mark.parametrize(
    ("tags", "key"),
    [
        ({"resource_class": "CUSTOM_FAST"}, "resource_class"),
        ({"traits": frozenset({"CUSTOM_FAST"})}, "traits"),
        ({"live_migratable": True}, "traits"),
    ],
)
def test_virtual_function_with_other_tags_than_the_first_is_unreportable(tags, key):
    assert reported(tagged(VFS[1], **tags), tagged(VFS[0])) == ({PF_0: [vf(0)]}, [(vf(1), key)])


def test_traits_come_from_the_specification_and_its_other_tags():
    default = {"COMPUTE_MANAGED_PCI_DEVICE"}
    assert Tags().provider_traits == default
    tags = Tags(traits=frozenset({"CUSTOM_A"}), one_time_use=True)
    assert tags.provider_traits == {*default, "CUSTOM_A", "HW_PCI_ONE_TIME_USE"}


# --- messages for the operator ---


def test_devname_cannot_be_combined_with_reporting():
    specs = parse_specs(['{"vendor_id": "10de"}', '{"devname": "p20"}'])
    check_no_devname(specs[:1])
    with pytest.raises(PciConfigInvalidSpec) as caught:
        check_no_devname(specs)
    assert str(caught.value) == (
        "[pci] device_spec 1: devname = p20: cannot be combined with report_in_placement;"
        " use address instead"
    )


def test_physical_function_together_with_its_virtual_functions_is_an_error():
    assert errors(GPU_IDS, PF_IDS, VF_IDS, devices=[PF, VFS[0]]) == [
        f"[pci] device_spec 2: address = {vf(0)}: is on the same card as {PF_0}:"
        " report_in_placement allows a physical function or its virtual functions, not both"
    ]


def test_different_classes_or_traits_on_one_card_are_errors():
    first = {**VF_IDS, "address": vf(0), "resource_class": "CUSTOM_A"}
    second = {**VF_IDS, "address": vf(1), "traits": "fast"}
    third = {**VF_IDS, "resource_class": "a", "traits": "fast"}
    rule = (
        "differs from that of 0000:20:02.0: report_in_placement requires the same for all"
        " virtual functions of a card"
    )
    assert errors(first, second, third, devices=VFS) == [
        f"[pci] device_spec 1: resource_class = CUSTOM_PCI_8086_154C: of {vf(1)} {rule}",
        f"[pci] device_spec 2: traits = COMPUTE_MANAGED_PCI_DEVICE,CUSTOM_FAST: of {vf(2)} {rule}",
    ]


def test_devices_that_are_not_recorded_cause_no_errors():
    not_allowed = {**VF_IDS, "one_time_use": "yes", "resource_class": "CUSTOM_A"}
    assert {each.dev_type for each in VFS} == {SRIOV_VF}
    assert errors(not_allowed, PF_IDS, devices=[PF, *VFS]) == []
    assert errors(PF_IDS, devices=[PF, *VFS]) == []
