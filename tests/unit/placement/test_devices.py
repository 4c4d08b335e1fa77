"""Inventories of PCI devices, of assigned resources and of encryption contexts in the tree."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rtagent import claims
from rtagent.model.change import Change
from rtagent.model.claim import PCI
from rtagent.model.device import MdevType, Tags
from rtagent.model.mem_encryption import AMD_SEV
from rtagent.model.policy import ManageAllocations, PlacementPolicy
from rtagent.pci.allocations import device_allocations
from rtagent.pci.mdev import mdev_uuid
from rtagent.pci.specs import parse_specs
from rtagent.placement import tree
from rtagent.placement.tree import affects_tree, build
from tests.support.device_states import (
    ONE_TIME,
    PMEM,
    VGPU_TYPE,
    audited,
    built,
    device_host,
    domain,
    encrypted,
    guest,
    orphan,
    policy,
    provider_of,
    released,
    running,
    seen,
    sev_host,
)
from tests.support.hosts import NODE, NOON, TOPOLOGY, call, with_claims
from tests.support.pci_hosts import (
    GPU_0,
    GPU_1,
    GPU_IDS,
    PF_0,
    VF_IDS,
    gpu,
    nic,
    record,
    vf,
)
from tests.unit.placement.values import record as counts

#: Without the physical function, which Placement cannot count together with its virtual ones.
REPORTED = parse_specs([json.dumps(ids) for ids in (GPU_IDS, VF_IDS)])
GPUS_AND_VFS = record([gpu(GPU_0, 0), gpu(GPU_1, 1), *list(nic())[1:]])
GPU_CLASS, VF_CLASS = "CUSTOM_PCI_10DE_13F1", "CUSTOM_PCI_8086_154C"


def reporting(devices=None, specs=REPORTED):
    present = GPUS_AND_VFS if devices is None else devices
    return device_host(present, pci=policy(specs, report_in_placement=True))


def children(state):
    tree = build(state, disabled=False, hypervisor_up=True)
    assert tree is not None
    return {each.name.removeprefix("cn1.example_"): each for each in tree.providers[1:]}


def child_inventories(state):
    """Return the inventories of the children by the end of their name."""
    return {name: dict(each.inventories) for name, each in children(state).items()}


def test_each_gpu_and_each_physical_function_is_a_child_provider():
    assert child_inventories(reporting()) == {
        "0000:08:00.0": {GPU_CLASS: counts(1)},
        "0000:20:00.0": {VF_CLASS: counts(4)},
        "0000:88:00.0": {GPU_CLASS: counts(1)},
    }


def test_a_child_has_an_upper_case_name_and_a_stable_uuid():
    first = children(reporting(record([gpu("0000:af:00.0")])))["0000:AF:00.0"]
    again = children(reporting(record([gpu("0000:af:00.0", numa_node=1), *nic()])))["0000:AF:00.0"]
    other = children(reporting())["0000:08:00.0"]
    assert (first.name, first.parent) == ("cn1.example_0000:AF:00.0", NODE.uuid)
    assert first.uuid == again.uuid != other.uuid


def test_devices_are_not_reported_without_the_option():
    assert child_inventories(device_host()) == {}


def test_resource_class_and_traits_come_from_the_specification():
    tags = Tags(resource_class="CUSTOM_GPU", traits=frozenset({"CUSTOM_FAST"}))
    child = children(reporting(record([gpu()], tags)))["0000:08:00.0"]
    assert dict(child.inventories) == {"CUSTOM_GPU": counts(1)}
    assert child.traits == {"CUSTOM_FAST", "COMPUTE_MANAGED_PCI_DEVICE", "OWNER_NOVA"}


def test_claimed_devices_are_not_reserved():
    state, claim = built(reporting(), "gpu:1,vf:2")
    assert child_inventories(state) == child_inventories(reporting())
    assert child_inventories(running(state, claim)) == child_inventories(reporting())


def test_a_claimed_device_that_a_foreign_domain_uses_is_not_reserved():
    state, claim = built(reporting(), "gpu:1")
    foreign = domain("foreign", [claim.pci[0].address])
    assert child_inventories(
        audited(state, seen(state, guest(claim), foreign))
    ) == child_inventories(state)


def test_a_one_time_use_device_is_reserved_from_its_claim_on():
    free = reporting(record([gpu()], Tags(one_time_use=True)), ONE_TIME)
    assert child_inventories(free)["0000:08:00.0"] == {GPU_CLASS: counts(1)}
    assert "HW_PCI_ONE_TIME_USE" in children(free)["0000:08:00.0"].traits
    state, claim = built(free, "gpu:1")
    assert child_inventories(state)["0000:08:00.0"] == {GPU_CLASS: counts(1, reserved=1)}
    state = running(state, claim)
    assert child_inventories(state)["0000:08:00.0"] == {GPU_CLASS: counts(1, reserved=1)}
    state = released(state, claim)
    assert child_inventories(state)["0000:08:00.0"] == {GPU_CLASS: counts(1, reserved=1)}


def test_a_one_time_use_device_is_reserved_after_its_allocation_was_written():
    free = reporting(record([gpu()], Tags(one_time_use=True)), ONE_TIME)
    manages = PlacementPolicy(manage_allocations=ManageAllocations.YES)
    free = replace(free, policy=replace(free.policy, placement=manages))
    state, claim = built(free, "gpu:1")
    assert set(state.outbox) == {claim.owner_id}
    assert child_inventories(state)["0000:08:00.0"] == {GPU_CLASS: counts(1)}

    # Placement would refuse the allocation of a reserved device.
    change = Change(cause="t", at=NOON, written=(claim.owner_id,))
    state = state.fold(change)

    assert affects_tree(state, [change])
    assert child_inventories(state)["0000:08:00.0"] == {GPU_CLASS: counts(1, reserved=1)}
    assert not affects_tree(reporting(), [change])


def test_devices_in_the_iommu_group_of_a_claimed_one_are_reserved():
    both = record([gpu(GPU_0, 0, iommu_group=7), gpu(GPU_1, 0, iommu_group=7)])
    state, claim = built(reporting(both), "gpu:1")
    other = {GPU_0: "0000:88:00.0", GPU_1: "0000:08:00.0"}[claim.pci[0].address]
    assert child_inventories(state)[other] == {GPU_CLASS: counts(1, reserved=1)}


def test_virtual_functions_of_a_used_physical_function_are_reserved():
    state = reporting(record(nic()))
    unlisted = replace(state.devices[PF_0], listed=False)
    state = state.fold(Change(cause="t", at=NOON, devices=(unlisted,)))
    everything = [each.device for each in state.devices.values()]
    state = audited(state, seen(state, domain("orphan", [PF_0]), devices=everything))
    assert child_inventories(state) == {"0000:20:00.0": {VF_CLASS: counts(4, reserved=4)}}


@pytest.mark.parametrize("how", ["unplugged", "no longer in the specifications"])
def test_a_removed_device_stays_until_its_claim_is_released(how):
    state, claim = built(reporting(record([gpu()])), "gpu:1")
    present = [] if how == "unplugged" else [gpu()]
    if present:
        unlisted = policy((), report_in_placement=True)
        state = replace(state, policy=replace(state.policy, pci=unlisted))
    state = audited(state, seen(state, guest(claim), devices=present))
    assert child_inventories(state) == {"0000:08:00.0": {GPU_CLASS: counts(1)}}
    state = released(state, claim)
    assert child_inventories(audited(state, seen(state, devices=present))) == {}


def test_devices_that_placement_cannot_count_are_left_out():
    assert child_inventories(reporting(record(nic()))) == {
        "0000:20:00.0": {"CUSTOM_PCI_8086_1583": counts(1)}
    }
    assert child_inventories(reporting(record(nic(), Tags(physical_network="physnet1")))) == {}


# -- the root -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "has_trait"),
    [({}, True), ({"present": False}, False), ({"listed": False}, False)],
)
def test_remote_managed_ports_give_the_root_a_trait(parts, has_trait):
    devices = record(list(nic(vfs=1))[1:], Tags(remote_managed=True))
    state = device_host({address: replace(each, **parts) for address, each in devices.items()})
    tree = build(state, disabled=False, hypervisor_up=True)
    assert tree is not None
    assert ("COMPUTE_REMOTE_MANAGED_PORTS" in tree.providers[0].traits) is has_trait


# -- changes that affect the tree -----------------------------------------------------------------


def test_changes_of_devices_affect_the_tree():
    state, claim = built(reporting(), "gpu:1")
    for parts in (
        {"puts": (claim,)},
        {"devices": (replace(state.devices[GPU_0], quarantine="broken"),)},
        {"device_removals": (GPU_1,)},
    ):
        change = Change(cause="t", at=NOON, **parts)
        assert affects_tree(state, [change])
    plain = Change(cause="t", at=NOON, puts=(replace(claim, pci=()),))
    assert not affects_tree(state, [plain])


# -- Placement is never more generous than the agent ----------------------------------------------

addresses = st.sampled_from(sorted(GPUS_AND_VFS))


@given(
    foreign=st.sets(addresses),
    quarantined=st.sets(addresses),
    groups=st.dictionaries(addresses, st.integers(0, 1)),
    wanted=st.sampled_from(["", "gpu:1", "vf:1", "gpu:1,vf:2"]),
)
def test_devices_that_placement_grants_are_available(foreign, quarantined, groups, wanted):
    devices = {
        address: replace(
            each,
            quarantine="broken" if address in quarantined else None,
            device=replace(each.device, iommu_group=groups.get(address)),
        )
        for address, each in GPUS_AND_VFS.items()
    }
    state = reporting()
    if wanted:
        state, _ = built(state, wanted)
    state = state.fold(Change(cause="t", at=NOON, devices=tuple(devices.values())))
    domain_usage = domain("foreign", foreign).domain_usage()
    assert domain_usage is not None
    state = state.fold(Change(cause="t", at=NOON, domain_usages=(domain_usage,)))
    free = {address for kind in device_allocations(state).available() for address in kind.addresses}
    for child in children(state).values():
        (inventory,) = child.inventories.values()
        mine = [vf(n) for n in range(4)] if inventory.total == 4 else [child.name[-12:].lower()]
        claimed = sum((PCI, address) in state.units for address in mine)
        assert inventory.total - inventory.reserved - claimed == len(free.intersection(mine))


# -- assigned resources ---------------------------------------------------------------------------

TYPE = MdevType(id="nvidia-11", device_api="vfio-pci", available_instances=2)
#: Two GPUs that provide two mdevs each.
GPUS = record([gpu(GPU_0, 0, mdev_types=(TYPE,)), gpu(GPU_1, 1, mdev_types=(TYPE,))])
VGPU = "pci_0000_08_00_0"
PMEM_CLASS = PMEM.resource_class


def providing(**other):
    return device_host(GPUS, pci=policy(mdev_types=(VGPU_TYPE,), pmem=(PMEM,), **other))


def inventories(state):
    """Return the inventories by the end of the provider's name; "" is the root."""
    tree = build(state, disabled=False, hypervisor_up=True)
    assert tree is not None
    assert {each.parent for each in tree.providers[1:]} <= {NODE.uuid}
    return {
        each.name.removeprefix("cn1.example").removeprefix("_"): dict(each.inventories)
        for each in tree.providers
    }


def test_each_device_that_provides_mdevs_is_a_child_provider():
    found = inventories(providing())
    assert found[VGPU] == found["pci_0000_88_00_0"] == {"VGPU": counts(2)}
    assert set(found) == {"", VGPU, "pci_0000_88_00_0"}


def test_traits_of_devices_that_are_not_true_are_those_of_this_agent_alone():
    child = children(reporting())["0000:08:00.0"]
    assert child.exclusive.traits == {"HW_PCI_LIVE_MIGRATABLE", "HW_PCI_ONE_TIME_USE"}


def test_persistent_memory_is_an_inventory_of_the_root():
    assert inventories(providing())[""][PMEM_CLASS] == counts(2)


def test_an_mdev_type_may_have_a_resource_class_of_its_own():
    own = replace(VGPU_TYPE, resource_class="CUSTOM_BIG", addresses=frozenset({GPU_0}))
    found = inventories(device_host(GPUS, pci=policy(mdev_types=(own,))))
    assert found[VGPU] == {"CUSTOM_BIG": counts(2)}
    assert set(found) == {"", VGPU}


def test_claimed_resources_are_not_reserved():
    state, claim = built(providing(), extra_resource={"VGPU": 1, PMEM_CLASS: 1})
    assert len(claim.resources) == 2
    assert inventories(state) == inventories(providing())


def test_free_mdevs_of_a_quarantined_device_are_reserved():
    state, _ = built(providing(), extra_resource={"VGPU": 1})
    device = replace(state.devices[GPU_0], quarantine="it is hot")
    found = inventories(replace(state, devices=state.devices.changed((), (device,))))
    assert found[VGPU] == {"VGPU": counts(2, reserved=1)}
    assert found["pci_0000_88_00_0"] == {"VGPU": counts(2)}


def test_mdevs_of_a_foreign_domain_are_reserved():
    state = providing()
    used = mdev_uuid(NODE.uuid, state.resource_inventories[0].identifiers[1])
    state = audited(state, seen(state, domain("orphan", mdevs=[used])))
    assert inventories(state)[VGPU] == {"VGPU": counts(2, reserved=1)}


def test_all_mdevs_of_a_claimed_device_are_reserved():
    state, claim = built(providing(), "gpu:1")
    name = "pci_" + claim.pci[0].address.replace(":", "_").replace(".", "_")
    assert inventories(state)[name] == {"VGPU": counts(2, reserved=2)}


def test_a_device_with_a_claimed_mdev_is_reserved():
    state, claim = built(providing(report_in_placement=True), extra_resource={"VGPU": 1})
    whole = claim.resources[0].parent_addr.upper()
    assert inventories(state)[whole] == {"CUSTOM_PCI_10DE_13F1": counts(1, reserved=1)}


def test_claimed_resources_of_a_removed_device_are_counted():
    state, claim = built(providing(), extra_resource={"VGPU": 1, PMEM_CLASS: 2})
    less = replace(state.policy, pci=policy(mdev_types=(VGPU_TYPE,)))
    change = Change(cause="t", at=NOON, resource_inventories=(), policy=less)
    state = state.fold(change)
    gone = "pci_" + claim.resources[-1].parent_addr.replace(":", "_").replace(".", "_")
    found = inventories(state)
    assert {gone: found[gone]} == {gone: {"VGPU": counts(1)}}
    assert found[""][PMEM_CLASS] == counts(2)
    assert set(found) == {"", gone}


def test_claims_and_inventories_of_resources_affect_the_tree():
    state, claim = built(providing(), extra_resource={"VGPU": 1})
    assert affects_tree(state, [Change(cause="t", at=NOON, puts=(claim,))])
    assert affects_tree(state, [Change(cause="t", at=NOON, ends=(claim,))])
    assert affects_tree(state, [Change(cause="t", at=NOON, resource_inventories=())])


def test_a_device_without_available_mdevs_is_no_child_provider():
    none = record([gpu(GPU_0, mdev_types=(replace(TYPE, available_instances=0),))])
    assert set(inventories(device_host(none, pci=policy(mdev_types=(VGPU_TYPE,))))) == {""}


def encrypting(state):
    built = tree.build(state, disabled=False, hypervisor_up=True)
    return {
        each.name.removeprefix(f"{NODE.hypervisor_hostname}_"): each for each in built.providers
    }


def test_each_model_of_encryption_has_a_provider_named_as_in_nova():
    state = sev_host()
    found = encrypting(state)
    sev, es = found["amd_sev"], found["amd_sev_es"]
    assert (sev.uuid, sev.parent) == (provider_of(AMD_SEV), NODE.uuid)
    assert sev.traits == {"HW_CPU_X86_AMD_SEV", "OWNER_NOVA"}
    assert es.traits == {"HW_CPU_X86_AMD_SEV_ES", "OWNER_NOVA"}
    record = sev.inventories["MEM_ENCRYPTION_CONTEXT"]
    assert (record.total, record.reserved, record.max_unit) == (2, 0, 1)
    root = found[NODE.hypervisor_hostname]
    assert "MEM_ENCRYPTION_CONTEXT" not in root.inventories
    assert not any("SEV" in trait for trait in root.traits)


def test_contexts_in_use_without_a_claim_are_reserved():
    state = with_claims(sev_host(), (), (orphan(),))
    decision = claims.instance_claim(state, call(), NOON, encrypted())
    state = state.fold(decision.change)
    record = encrypting(state)["amd_sev"].inventories["MEM_ENCRYPTION_CONTEXT"]
    assert (record.total, record.reserved) == (2, 1)


def test_contexts_of_claims_stay_when_the_host_has_lost_the_encryption():
    state = sev_host()
    state = state.fold(claims.instance_claim(state, call(), NOON, encrypted()).change)
    state = replace(state, topology=replace(TOPOLOGY, mem_encryption=()))
    found = encrypting(state)
    assert "amd_sev_es" not in found
    record = found["amd_sev"].inventories["MEM_ENCRYPTION_CONTEXT"]
    assert (record.total, record.reserved) == (1, 0)
