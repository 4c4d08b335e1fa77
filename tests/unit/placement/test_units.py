"""Virtual GPUs and persistent memory in the tree."""

from msgspec.structs import replace

from rtagent.model.change import Change
from rtagent.model.device import MdevType
from rtagent.pci.mdev import mdev_uuid
from rtagent.placement.tree import build, concerns
from tests.builders import NODE, NOON
from tests.device_states import PMEM, VGPU_TYPE, audited, built, device_host, domain, policy, seen
from tests.pci_hosts import GPU_0, GPU_1, gpu, record
from tests.unit.placement.values import record as counts

TYPE = MdevType(id="nvidia-11", device_api="vfio-pci", available_instances=2)
#: Two GPUs that make two virtual ones each.
GPUS = record([gpu(GPU_0, 0, mdev_types=(TYPE,)), gpu(GPU_1, 1, mdev_types=(TYPE,))])
VGPU = "pci_0000_08_00_0"
PMEM_CLASS = PMEM.resource_class


def making(**other):
    return device_host(GPUS, pci=policy(mdev_types=(VGPU_TYPE,), pmem=(PMEM,), **other))


def shown(state):
    """Inventories by the end of the provider's name; "" is the root."""
    tree = build(state, disabled=False, hypervisor_up=True)
    assert tree is not None
    assert {each.parent for each in tree.providers[1:]} <= {NODE.uuid}
    return {
        each.name.removeprefix("cn1.example").removeprefix("_"): dict(each.inventories)
        for each in tree.providers
    }


def test_each_device_that_makes_virtual_ones_has_a_child():
    found = shown(making())
    assert found[VGPU] == found["pci_0000_88_00_0"] == {"VGPU": counts(2)}
    assert set(found) == {"", VGPU, "pci_0000_88_00_0"}


def test_persistent_memory_is_the_hosts_own():
    assert shown(making())[""][PMEM_CLASS] == counts(2)


def test_a_class_of_its_own():
    own = replace(VGPU_TYPE, resource_class="CUSTOM_BIG", addresses=frozenset({GPU_0}))
    found = shown(device_host(GPUS, pci=policy(mdev_types=(own,))))
    assert found[VGPU] == {"CUSTOM_BIG": counts(2)}
    assert set(found) == {"", VGPU}


def test_what_a_claim_holds_is_not_reserved():
    state, claim = built(making(), extra_resource={"VGPU": 1, PMEM_CLASS: 1})
    assert len(claim.resources) == 2
    assert shown(state) == shown(making())


def test_what_a_device_that_is_kept_back_could_make_is_reserved():
    state, _ = built(making(), extra_resource={"VGPU": 1})
    kept = replace(state.devices[GPU_0], quarantine="it is hot")
    found = shown(replace(state, devices=state.devices.changed((), (kept,))))
    assert found[VGPU] == {"VGPU": counts(2, reserved=1)}
    assert found["pci_0000_88_00_0"] == {"VGPU": counts(2)}


def test_what_a_foreign_domain_uses_is_reserved():
    state = making()
    used = mdev_uuid(NODE.uuid, state.specific[0].identifiers[1])
    state = audited(state, seen(state, domain("orphan", mdevs=[used])))
    assert shown(state)[VGPU] == {"VGPU": counts(2, reserved=1)}


def test_a_device_that_is_given_away_whole_makes_none():
    state, claim = built(making(), "gpu:1")
    given = "pci_" + claim.pci[0].address.replace(":", "_").replace(".", "_")
    assert shown(state)[given] == {"VGPU": counts(2, reserved=2)}


def test_a_device_of_which_a_part_is_claimed_is_not_to_be_had_whole():
    state, claim = built(making(report_in_placement=True), extra_resource={"VGPU": 1})
    whole = claim.resources[0].provider.upper()
    assert shown(state)[whole] == {"CUSTOM_PCI_10DE_13F1": counts(1, reserved=1)}


def test_what_is_claimed_of_a_device_that_went_is_still_counted():
    state, claim = built(making(), extra_resource={"VGPU": 1, PMEM_CLASS: 2})
    less = replace(state.policy, pci=policy(mdev_types=(VGPU_TYPE,)))
    change = Change(cause="t", at=NOON, specific=(), policy=less)
    state = state.fold(change)
    gone = "pci_" + claim.resources[-1].provider.replace(":", "_").replace(".", "_")
    found = shown(state)
    assert {gone: found[gone]} == {gone: {"VGPU": counts(1)}}
    assert found[""][PMEM_CLASS] == counts(2)
    assert set(found) == {"", gone}


def test_claims_of_units_and_what_there_is_of_them_concern_placement():
    state, claim = built(making(), extra_resource={"VGPU": 1})
    assert concerns(state, [Change(cause="t", at=NOON, puts=(claim,))])
    assert concerns(state, [Change(cause="t", at=NOON, ends=(claim,))])
    assert concerns(state, [Change(cause="t", at=NOON, specific=())])


def test_a_device_that_makes_none_has_no_child():
    none = record([gpu(GPU_0, mdev_types=(replace(TYPE, available_instances=0),))])
    assert set(shown(device_host(none, pci=policy(mdev_types=(VGPU_TYPE,))))) == {""}
