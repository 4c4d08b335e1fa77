"""Inventories of PCI devices, of assigned resources and of encryption contexts in the tree."""

import json

import pytest
from msgspec.structs import replace

from rtagent.model.change import Change
from rtagent.model.device import Tags
from rtagent.model.mem_encryption import AMD_SEV
from rtagent.model.policy import ManageAllocations, PlacementPolicy
from rtagent.pci.specs import parse_specs
from rtagent.placement.tree import affects_tree, build
from tests.support.device_states import (
    ONE_TIME,
    PMEM,
    VGPU_TYPE,
    built,
    device_host,
    encrypted,
    orphan,
    policy,
    provider_of,
    released,
    running,
    sev_host,
    with_builds,
)
from tests.support.hosts import NODE, NOON, TOPOLOGY, with_claims
from tests.support.pci_hosts import GPU_0, GPU_1, GPU_IDS, VF_IDS, gpu, nic, record
from tests.unit.placement.values import record as counts

#: Without the physical function, which Placement cannot count together with its virtual ones.
REPORTED = parse_specs([json.dumps(ids) for ids in (GPU_IDS, VF_IDS)])
GPUS_AND_VFS = record([gpu(GPU_0, 0), gpu(GPU_1, 1), *list(nic())[1:]])
GPU_CLASS = "CUSTOM_PCI_10DE_13F1"


def reporting(devices=None, specs=REPORTED):
    present = GPUS_AND_VFS if devices is None else devices
    return device_host(present, pci=policy(specs, report_in_placement=True))


def providers(state):
    """Return the providers by the end of their name; "" is the root."""
    tree = build(state, disabled=False, hypervisor_up=True)
    root = NODE.hypervisor_hostname
    return {each.name.removeprefix(root).removeprefix("_"): each for each in tree.providers}


def inventories(state):
    return {name: dict(each.inventories) for name, each in providers(state).items()}


def test_a_child_has_an_upper_case_name_and_a_stable_uuid():
    first = providers(reporting(record([gpu("0000:af:00.0")])))["0000:AF:00.0"]
    again = providers(reporting(record([gpu("0000:af:00.0", numa_node=1), *nic()])))["0000:AF:00.0"]
    other = providers(reporting())["0000:08:00.0"]
    assert (first.name, first.parent) == ("cn1.example_0000:AF:00.0", NODE.uuid)
    assert first.uuid == again.uuid != other.uuid


def test_claimed_devices_are_not_reserved():
    state, claim = built(reporting(), "gpu:1,vf:2")
    assert inventories(state) == inventories(reporting())
    assert inventories(running(state, claim)) == inventories(reporting())


def test_a_one_time_use_device_is_reserved_from_its_claim_on():
    free = reporting(record([gpu()], Tags(one_time_use=True)), ONE_TIME)
    assert inventories(free)["0000:08:00.0"] == {GPU_CLASS: counts(1)}
    assert "HW_PCI_ONE_TIME_USE" in providers(free)["0000:08:00.0"].traits
    claimed, claim = built(free, "gpu:1")
    started = running(claimed, claim)
    for state in (claimed, started, released(started, claim)):
        assert inventories(state)["0000:08:00.0"] == {GPU_CLASS: counts(1, reserved=1)}


def test_a_one_time_use_device_is_reserved_after_its_allocation_was_written():
    free = reporting(record([gpu()], Tags(one_time_use=True)), ONE_TIME)
    manages = PlacementPolicy(manage_allocations=ManageAllocations.YES)
    free = replace(free, policy=replace(free.policy, placement=manages))
    state, claim = built(free, "gpu:1")
    assert set(state.outbox) == {claim.owner_id}
    assert inventories(state)["0000:08:00.0"] == {GPU_CLASS: counts(1)}

    # Placement would refuse the allocation of a reserved device.
    change = Change(cause="t", at=NOON, written=(claim.owner_id,))
    state = state.fold(change)

    assert affects_tree(state, [change])
    assert inventories(state)["0000:08:00.0"] == {GPU_CLASS: counts(1, reserved=1)}
    assert not affects_tree(reporting(), [change])


def test_devices_that_placement_cannot_count_are_left_out():
    found = inventories(reporting(record(nic())))
    assert found["0000:20:00.0"] == {"CUSTOM_PCI_8086_1583": counts(1)}
    assert found.keys() == {"", "0000:20:00.0"}
    on_network = reporting(record(nic(), Tags(physical_network="physnet1")))
    assert inventories(on_network).keys() == {""}


# -- the root -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parts", "has_trait"), [({}, True), ({"present": False}, False), ({"listed": False}, False)]
)
def test_remote_managed_ports_give_the_root_a_trait(parts, has_trait):
    devices = record(list(nic(vfs=1))[1:], Tags(remote_managed=True))
    state = device_host({address: replace(each, **parts) for address, each in devices.items()})
    assert ("COMPUTE_REMOTE_MANAGED_PORTS" in providers(state)[""].traits) is has_trait


# -- changes that affect the tree -----------------------------------------------------------------


def test_changes_of_devices_affect_the_tree():
    state, claim = built(reporting(), "gpu:1")
    for parts in (
        {"puts": (claim,)},
        {"devices": (replace(state.devices[GPU_0], quarantine="broken"),)},
        {"device_removals": (GPU_1,)},
    ):
        assert affects_tree(state, [Change(cause="t", at=NOON, **parts)])
    plain = Change(cause="t", at=NOON, puts=(replace(claim, pci=()),))
    assert not affects_tree(state, [plain])


# -- assigned resources ---------------------------------------------------------------------------

#: Two GPUs that provide two mdevs each.
GPUS = record([gpu(GPU_0, 0, vgpus=2), gpu(GPU_1, 1, vgpus=2)])
VGPU = "pci_0000_08_00_0"
PMEM_CLASS = PMEM.resource_class


def providing(**other):
    return device_host(GPUS, pci=policy(mdev_types=(VGPU_TYPE,), pmem=(PMEM,), **other))


def test_traits_of_devices_that_are_not_true_are_those_of_this_agent_alone():
    child = providers(reporting())["0000:08:00.0"]
    assert child.exclusive.traits == {"HW_PCI_LIVE_MIGRATABLE", "HW_PCI_ONE_TIME_USE"}


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
    assert found[gone] == {"VGPU": counts(1)}
    assert found[""][PMEM_CLASS] == counts(2)
    assert set(found) == {"", gone}


def test_each_model_of_encryption_has_a_provider_named_as_in_nova():
    found = providers(sev_host())
    sev, es = found["amd_sev"], found["amd_sev_es"]
    assert (sev.uuid, sev.parent) == (provider_of(AMD_SEV), NODE.uuid)
    assert sev.traits == {"HW_CPU_X86_AMD_SEV", "OWNER_NOVA"}
    assert es.traits == {"HW_CPU_X86_AMD_SEV_ES", "OWNER_NOVA"}
    record = sev.inventories["MEM_ENCRYPTION_CONTEXT"]
    assert (record.total, record.reserved, record.max_unit) == (2, 0, 1)
    root = found[""]
    assert "MEM_ENCRYPTION_CONTEXT" not in root.inventories
    assert not any("SEV" in trait for trait in root.traits)


def test_contexts_in_use_without_a_claim_are_reserved():
    state = with_builds(with_claims(sev_host(), (), (orphan(),)), encrypted())
    record = providers(state)["amd_sev"].inventories["MEM_ENCRYPTION_CONTEXT"]
    assert (record.total, record.reserved) == (2, 1)


def test_contexts_of_claims_stay_when_the_host_has_lost_the_encryption():
    state = with_builds(sev_host(), encrypted())
    state = replace(state, topology=replace(TOPOLOGY, mem_encryption=()))
    found = providers(state)
    assert "amd_sev_es" not in found
    record = found["amd_sev"].inventories["MEM_ENCRYPTION_CONTEXT"]
    assert (record.total, record.reserved) == (1, 0)
