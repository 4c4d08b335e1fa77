"""The mediated devices that Nova's driver reports, as settings, devices and claims have them."""

import pytest
from msgspec.structs import replace

from rtagent.model.assignment import AssignedResource
from rtagent.model.claim import ACTIVE, INCOMING, OUTGOING
from rtagent.model.device import Mdev
from rtagent.model.node import Ratios
from rtagent.model.policy import EnabledMdevType
from rtagent.nova.host_mdevs import HostMdevs, MdevParent, claim_of_guest, mdevs_by_holder
from tests.support.claims import pinned_claim
from tests.support.configurations import settings
from tests.support.hosts import uid
from tests.support.pci_hosts import GPU_0, GPU_1, gpu

NIC = "0000:09:00.0"
HOST = HostMdevs(
    parents=(
        MdevParent(address=GPU_0, type="nvidia-11", resource_class="VGPU", total=4),
        MdevParent(address=GPU_1, type="nvidia-11", resource_class="VGPU", total=1),
        MdevParent(address=NIC, type="mlx5", resource_class="CUSTOM_SF", total=0),
    ),
    mdevs=tuple(
        Mdev(uuid=uid(number), type=type_, parent_addr=parent)
        for number, type_, parent in ((1, "nvidia-11", GPU_0), (2, "mlx5", NIC))
    ),
)


def types(settings):
    return settings.policy(Ratios()).pci.mdev_types


def test_each_type_is_enabled_on_the_devices_on_which_nova_has_it_and_no_other_one(tmp_path):
    own = "[devices]\nenabled_mdev_types = i915-1\n"
    assert types(HOST.settings(settings(tmp_path, own))) == (
        EnabledMdevType(
            type="nvidia-11",
            addresses=frozenset({GPU_0, GPU_1}),
            resource_class="VGPU",
            max_instances=None,
        ),
        EnabledMdevType(
            type="mlx5", addresses=frozenset({NIC}), resource_class="CUSTOM_SF", max_instances=None
        ),
    )
    assert types(HostMdevs().settings(settings(tmp_path, own))) == ()


def test_devices_can_make_what_their_total_has_beyond_what_exists():
    listed = tuple(gpu(address) for address in (GPU_0, GPU_1, NIC, "0000:0a:00.0"))
    types = (each.mdev_types for each in HOST.devices(listed))
    free = [[(type_.id, type_.available_instances) for type_ in each] for each in types]
    assert free == [[("nvidia-11", 3)], [("nvidia-11", 1)], [("mlx5", 0)], []]
    assert HOST.devices(None) is None


def test_claims_have_the_class_and_the_parent_of_what_nova_gives_out():
    found = HOST.resources([uid(2), uid(3), uid(1)])
    units = [(each.resource_class, each.identifier, each.parent_addr) for each in found]
    function = ("CUSTOM_SF", f"{NIC}/mlx5/{uid(2)}", NIC)
    assert units == [function, ("VGPU", f"{GPU_0}/nvidia-11/{uid(1)}", GPU_0)]


def main(state, number=None):
    """A main claim in a state. :param number: of its mediated device."""
    name = f"{GPU_0}/nvidia-11/{uid(number)}"
    unit = AssignedResource(resource_class="VGPU", identifier=name, parent_addr=GPU_0)
    return replace(pinned_claim(owner=uid(9)), state=state, resources=(unit,) if number else ())


@pytest.mark.parametrize(
    ("states", "position"),
    [
        ([ACTIVE], 0),
        ([OUTGOING], 0),
        ([ACTIVE, INCOMING], 1),
        ([OUTGOING, INCOMING], 1),
        ([ACTIVE, OUTGOING], 0),
    ],
)
def test_guest_gets_its_devices_by_the_claim_that_it_does_not_leave(states, position):
    mains = tuple(map(main, states))
    assert claim_of_guest(mains) is mains[position]


def test_owner_without_a_claim_gets_none():
    assert claim_of_guest(()) is None


def test_what_is_held_for_a_return_is_not_the_guests():
    before, after = main(ACTIVE, 1), main(INCOMING, 2)
    found = dict(mdevs_by_holder((before, after)))
    assert found == {before.uuid: [uid(1)], after.owner_id: [uid(2)]}
    assert dict(mdevs_by_holder((before, main(INCOMING)))) == {before.uuid: [uid(1)]}
