"""Device specifications against the host: at the first look, at a reload, at an unplug."""

import json

import pytest
from immutables import Map
from msgspec.structs import replace

from rtagent.errors import PciConfigInvalidSpec
from rtagent.model.pci_devices import PciDevices
from rtagent.model.pci_policy import PciPolicy
from rtagent.model.policy import Policy
from rtagent.pci.spec import parse_specs
from rtagent.service.device_specs import DeviceSpecs
from tests.pci_hosts import GPU_0, PF_0, PF_1, PF_IDS, SPECS, VF_IDS, gpu, nic, vf
from tests.unit.api.given import WEB_CLAIM, given

CARD = tuple(nic(vfs=2))
#: Of each card the one function is in somebody's hands: DB's, a foreign domain's.
HELD = (*nic(vfs=1), *nic(PF_1, vfs=1))


def policy(*specs: dict[str, str]) -> Policy:
    return Policy(pci=PciPolicy(specs=parse_specs([json.dumps(each) for each in specs])))


#: Right for a GPU, and wrong for a virtual function.
USED_ONCE = policy({"address": GPU_0}, {**VF_IDS, "one_time_use": "yes"})


NOTHING_HELD = replace(given(), claims=Map(), owners=Map(), holdings=Map())


class Host:
    """The state and the devices of the moment, and what `DeviceSpecs` tells."""

    def __init__(self, world, wanted: Policy = USED_ONCE, devices=CARD) -> None:
        self.state, self.devices = replace(NOTHING_HELD, policy=wanted), devices
        self.failed, self.parts = [], world.notes.parts
        self.specs = DeviceSpecs(
            lambda: self.state, lambda: self.devices, world.notes, self.failed.append
        )


def test_specifications_that_fit_the_host_are_accepted(world):
    ours = Host(world, Policy(pci=PciPolicy(specs=SPECS)))

    assert ours.specs.look()

    assert (ours.failed, ours.parts["devices"]) == ([], "pass")


def test_one_that_cannot_be_said_of_a_device_ends_the_start(world):
    ours = Host(world)

    assert not ours.specs.look()

    assert [str(error) for error in ours.failed] == [
        f"[pci] device_spec 1: one_time_use = yes: is not for a virtual function, which {vf(0)} is"
    ]
    assert "devices" not in ours.parts


def test_a_card_beside_its_functions_that_placement_cannot_be_told_of_ends_it_too(world):
    told = PciPolicy(specs=SPECS, report_in_placement=True)
    ours = Host(world, Policy(pci=told))

    assert not ours.specs.look()

    (error,) = ours.failed
    assert str(error).startswith(f"[pci] device_spec 2: address = {vf(0)}: ")
    ours.state, ours.devices = replace(given(), policy=Policy(pci=told)), HELD
    assert ours.specs.look()


def test_a_physical_function_is_not_managed_remotely(world):
    cards = [replace(each, card_serial_number="MT1") for each in CARD]
    ours = Host(world, policy({**PF_IDS, "remote_managed": "yes"}), cards)

    assert not ours.specs.look()

    (error,) = ours.failed
    assert str(error).startswith("[pci] device_spec 0: remote_managed = yes: ")


def test_a_device_that_comes_later_ends_nothing(world):
    ours = Host(world, devices=[gpu()])
    assert ours.specs.look()

    ours.devices = CARD

    assert ours.specs.look()
    assert (ours.failed, ours.parts["devices"]) == ([], "pass")


def test_a_device_that_somebody_holds_ends_nothing(world):
    ours = Host(world, devices=HELD)
    ours.state = replace(given(), policy=USED_ONCE)

    assert ours.specs.look()

    ours.specs.check(USED_ONCE)
    ours.devices = CARD
    with pytest.raises(PciConfigInvalidSpec, match="one_time_use"):
        ours.specs.check(USED_ONCE)


def test_what_is_held_and_gone_is_kept_and_told(world):
    ours = Host(world, Policy())
    without = {address: each for address, each in given().devices.items() if address != GPU_0}
    ours.state = replace(given(), devices=PciDevices(without))

    assert ours.specs.look()

    assert WEB_CLAIM.resources[1].identifier == "ns_9"
    assert ours.parts["devices"] == (
        f"warn: held, and gone or not offered: PCI device {GPU_0}, CUSTOM_PMEM_NAMESPACE_4GB ns_9;"
        " they stay with their holders"
    )
    ours.state = NOTHING_HELD
    assert ours.specs.look()
    assert ours.parts["devices"] == "pass"


def test_another_policy_is_judged_against_the_host(world):
    ours = Host(world, Policy())

    ours.specs.check(policy({"address": PF_0}))
    with pytest.raises(PciConfigInvalidSpec, match="one_time_use"):
        ours.specs.check(USED_ONCE)


@pytest.mark.parametrize("devices", [None, ()])
def test_devices_that_were_never_listed_allow_any(world, devices):
    ours = Host(world, devices=devices)

    assert ours.specs.look()
    ours.specs.check(USED_ONCE)
