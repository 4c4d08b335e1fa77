"""The domain usage that a claim stands for."""

from msgspec.structs import replace

from rtagent import claims
from rtagent.lifecycle.moves.steps import claimed_usage
from rtagent.model.device import MdevType
from rtagent.pci.mdev import mdev_uuid
from rtagent.reconcile.drift import differences
from tests.support.device_states import VGPU_TYPE, audited, built, device_host, policy, seen
from tests.support.hosts import NODE, NOON, PINNED, PINNING, call, host, request
from tests.support.pci_hosts import GPU_0, gpu


def claim_on(state, **fields):
    decision = claims.instance_claim(state, call(), NOON, request(**fields))
    return decision.claims[0]


def test_usage_of_a_plain_claim_is_its_flavor():
    claim = claim_on(host(), vcpus=2, memory_mb=512)
    usage = claimed_usage(claim)
    assert (usage.domain_uuid, usage.active) == (claim.owner_id, True)
    assert (usage.vcpus, usage.memory_mb) == (2, 512)
    assert not list(differences(claim, usage))


def test_usage_of_a_pinned_claim_has_its_cpus_and_pages():
    specs = {**PINNED, "hw:mem_page_size": "2MB"}
    claim = claim_on(host(numa=PINNING), vcpus=2, memory_mb=512, extra_specs=specs)
    occupancy = claimed_usage(claim).occupancy
    (cell,) = claim.numa_topology.cells
    assert occupancy.pcpus == cell.taken
    assert occupancy.memory_mb == {cell.id: 512}
    assert occupancy.pages == {cell.id: {2048: 256}}
    assert not list(differences(claim, claimed_usage(claim)))


def test_reserved_thread_siblings_are_not_used():
    specs = {**PINNED, "hw:cpu_thread_policy": "isolate"}
    claim = claim_on(host(numa=PINNING), vcpus=1, extra_specs=specs)
    assert claim.numa_topology.kept
    assert not claimed_usage(claim).occupancy.pcpus & claim.numa_topology.kept


def test_usage_of_a_claim_with_devices_has_their_names_in_a_domain_document():
    _, claim = built(device_host(), "gpu:1,vf:1")
    assert claimed_usage(claim).occupancy.devices == {device.address for device in claim.pci}
    assert not list(differences(claim, claimed_usage(claim)))


def test_usage_of_a_claim_with_mediated_devices_has_their_uuids_and_parents():
    state = device_host({}, pci=policy(mdev_types=(VGPU_TYPE,)))
    type_ = MdevType(id="nvidia-11", device_api="vfio-pci", available_instances=1)
    state = audited(state, seen(state, devices=[replace(gpu(GPU_0, 0), mdev_types=(type_,))]))
    _, claim = built(state, extra_resource={"VGPU": 1})
    occupancy = claimed_usage(claim).occupancy
    assert occupancy.mdevs == {mdev_uuid(NODE.uuid, claim.resources[0].identifier)}
    assert occupancy.mdev_parents == {GPU_0}
    assert not list(differences(claim, claimed_usage(claim)))
