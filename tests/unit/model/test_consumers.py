"""The allocations that claims should have in Placement, by consumer."""

import json

import pytest
from msgspec.structs import replace

from rtagent.model.consumers import INSTANCE, MIGRATION, consumers_of, own_providers, owner_of
from rtagent.model.device import Tags
from rtagent.model.mem_encryption import MODELS, provider_suffix
from rtagent.model.provider_names import mdev_suffix, provider_uuid
from rtagent.model.request import Allocation
from rtagent.pci.specs import parse_specs
from tests.support.device_states import VGPU_TYPE, build_claim, built, device_host, policy, released
from tests.support.hosts import NODE, PINNED, PINNING, consumer_allocations, host, request, uid
from tests.support.move_host import GUEST, LARGE, SMALL, Host, facts, source_and_dest
from tests.support.pci_hosts import GPU_0, GPU_IDS, PF_0, VF_IDS, gpu, nic, record

SMALL_PARTS = {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 1}
LARGE_PARTS = {"VCPU": 2, "MEMORY_MB": 3072, "DISK_GB": 2}
GPU_CLASS, VF_CLASS = "CUSTOM_PCI_10DE_13F1", "CUSTOM_PCI_8086_154C"
SPECS = parse_specs([json.dumps(ids) for ids in (GPU_IDS, VF_IDS)])
VFS = list(nic())[1:]
DEVICES = record([gpu(GPU_0, 0), *VFS])
WITH_VGPUS = record([gpu(GPU_0, 0, vgpus=4), *VFS])


def reporting(devices=None, **more):
    found = DEVICES if devices is None else devices
    return device_host(found, pci=policy(SPECS, report_in_placement=True, **more))


def by_name(state, consumer):
    """A consumer's allocations, by the suffix of the provider."""
    suffixes = ("", GPU_0.upper(), PF_0.upper(), mdev_suffix(GPU_0))
    names = {provider_uuid(state.node, state.policy.placement, each): each for each in suffixes}
    found = consumer_allocations(state, consumer)
    return {names[provider]: dict(parts) for provider, parts in found.items()}


def held(node: Host):
    """What each consumer has on a host's root provider."""
    found = consumers_of(node.state, GUEST)
    return {uuid: dict(each.parts[node.state.node.uuid]) for uuid, each in found.items()}


def test_a_build_allocates_what_its_claim_has():
    state, claim = built(host(), vcpus=2, memory_mb=2048, root_gb=3)
    found = consumers_of(state, claim.owner_id)[claim.owner_id]
    assert found.consumer_type == INSTANCE
    assert found.parts == {NODE.uuid: {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 3}}
    assert consumer_allocations(released(state, claim), claim.owner_id) == {}


def test_dedicated_cpus_are_pcpus_and_disk_is_rounded_up_to_whole_gb():
    state, claim = built(host(numa=PINNING), vcpus=2, swap=1, extra_specs=PINNED)
    allocated = {"PCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 1}
    assert consumer_allocations(state, claim.owner_id)[NODE.uuid] == allocated


def test_devices_that_are_not_reported_are_not_allocated():
    state, claim = built(device_host(DEVICES, pci=policy(SPECS)), "gpu:1")
    assert by_name(state, claim.owner_id) == {"": {"VCPU": 1, "MEMORY_MB": 1024}}
    ports = record(VFS, Tags(physical_network="physnet1"))
    state, claim = built(reporting(ports), "vf:1")
    assert by_name(state, claim.owner_id) == {"": {"VCPU": 1, "MEMORY_MB": 1024}}


def test_mediated_devices_are_on_the_provider_of_their_parent():
    state, claim = built(reporting(WITH_VGPUS, mdev_types=(VGPU_TYPE,)), extra_resource={"VGPU": 2})
    assert by_name(state, claim.owner_id)[mdev_suffix(GPU_0)] == {"VGPU": 2}


def test_a_guest_that_comes_back_has_its_source_again():
    source, dest = source_and_dest()
    move = facts()
    dest.claim_move(move, LARGE)
    source.start_move_out(move)
    assert consumers_of(source.state, GUEST)[move.uuid].consumer_type == MIGRATION
    assert owner_of(source.state, move.uuid) == GUEST
    dest.finish_move(move)
    dest.drop_at_dest(move)
    source.finish_revert(move)
    assert (held(source), held(dest)) == ({GUEST: SMALL_PARTS}, {})


def test_an_evacuated_guest_has_both_hosts_until_its_source_is_informed():
    source, dest = source_and_dest()
    move = facts("evacuation")
    dest.claim_move(move)
    dest.finish_move(move)
    assert (held(source), held(dest)) == ({GUEST: SMALL_PARTS}, {GUEST: SMALL_PARTS})
    source.drop_at_source(move)
    assert (held(source), held(dest)) == ({}, {GUEST: SMALL_PARTS})


def test_a_resize_on_one_host_has_the_old_flavor_under_the_migration():
    node, move = Host(), facts()
    node.build()
    node.claim_move(move, LARGE)
    both = {move.uuid: SMALL_PARTS, GUEST: LARGE_PARTS}
    assert held(node) == both
    node.start_move_out(move)
    node.finish_move(move)
    assert held(node) == both
    node.drop_at_source(move)
    assert held(node) == {GUEST: LARGE_PARTS}


def test_what_both_claims_of_a_resize_share_is_counted_once():
    node, move = Host(host(same_host_resize_reuse=True)), facts()
    node.build()
    node.claim_move(move, LARGE)
    assert held(node)[GUEST] == LARGE_PARTS
    assert consumer_allocations(node.state, move.uuid) == {}


def test_a_device_that_both_claims_of_a_resize_have_belongs_to_the_instance():
    node, move = Host(reporting()), facts()
    specs = {"pci_passthrough:alias": "gpu:1"}
    small, large = replace(SMALL, extra_specs=specs), replace(LARGE, extra_specs=specs)
    node.build(small)
    node.claim_move(move, large, old=small)
    assert by_name(node.state, GUEST)[GPU_0.upper()] == {GPU_CLASS: 1}
    assert by_name(node.state, move.uuid) == {"": SMALL_PARTS}


def test_attached_devices_stay_with_the_claim_that_leaves():
    source = Host(reporting())
    source.build()
    source.attach()
    move = facts("live-migration")
    source.start_move_out(move)
    assert by_name(source.state, move.uuid) == {"": SMALL_PARTS, PF_0.upper(): {VF_CLASS: 1}}
    assert consumer_allocations(source.state, GUEST) == {}


def test_every_provider_that_an_allocation_may_be_on_is_known():
    state = reporting(WITH_VGPUS, mdev_types=(VGPU_TYPE,))
    contexts = map(provider_suffix, MODELS)
    suffixes = ("", GPU_0.upper(), PF_0.upper(), mdev_suffix(GPU_0), *contexts)
    expected = {provider_uuid(NODE, state.policy.placement, each) for each in suffixes}
    assert own_providers(state) == expected


def test_shared_disk_is_allocated_from_the_provider_that_shares_it():
    state, claim = built(host(), vcpus=2, memory_mb=2048, root_gb=3)
    shared = replace(state.policy.placement, disk_provider=uid(70))
    state = replace(state, policy=replace(state.policy, placement=shared))
    allocations = consumer_allocations(state, claim.owner_id)
    assert allocations == {NODE.uuid: {"VCPU": 2, "MEMORY_MB": 2048}, uid(70): {"DISK_GB": 3}}
    # Other hosts have allocations there, too.
    assert uid(70) not in own_providers(state)


@pytest.mark.parametrize("cpus", ["VCPU", "PCPU"])
def test_what_a_flavor_says_for_placement_is_written_as_it_was_allocated(cpus):
    memory = {"resources1:MEMORY_MB": "100", "resources2:MEMORY_MB": "28"}
    specs = {f"resources:{cpus}": "0", **memory}
    asked = request(vcpus=2, memory_mb=2048, root_gb=3, extra_specs=specs)
    allocated = {NODE.uuid: {"MEMORY_MB": 128, "DISK_GB": 3}}
    allocations = {uuid: Allocation(resources=part) for uuid, part in allocated.items()}
    state, claim = build_claim(host(), replace(asked, allocations=allocations))
    assert consumer_allocations(state, claim.owner_id) == allocated


def test_mixed_guest_is_allocated_its_shared_vcpus_whatever_its_flavor_says_for_placement():
    mixed = {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0", "resources:VCPU": "0"}
    asked = request(vcpus=2, memory_mb=1024, root_gb=0, extra_specs=mixed)
    allocated = {NODE.uuid: {"VCPU": 1, "PCPU": 1, "MEMORY_MB": 1024}}
    allocations = {uuid: Allocation(resources=part) for uuid, part in allocated.items()}
    state, claim = build_claim(host(numa=PINNING), replace(asked, allocations=allocations))
    assert consumer_allocations(state, claim.owner_id) == allocated
