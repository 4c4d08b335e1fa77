"""Claims are assigned cells, devices and units that fit together, or are refused."""

from msgspec.structs import replace

from rtagent.allocation.kept_views import reusable_by
from rtagent.model.decision import ReasonCode
from rtagent.pci.assigned_resources import allocatable_inventories
from tests.support.device_states import (
    PMEM,
    VGPU_TYPE,
    addresses,
    aliased,
    audited,
    built,
    device_host,
    domain,
    policy,
    refusal,
    seen,
)
from tests.support.hosts import PINNED
from tests.support.pci_hosts import GPU_0, GPU_1, gpu, record, vf

NEAR = {"hw:pci_numa_affinity_policy": "required"}


def refused(state, aliases="", **asked):
    reasons = refusal(state, aliased(aliases, **asked)).reasons
    return [(reason.code, reason.resource, reason.available) for reason in reasons]


def cells(claim):
    return [cell.id for cell in claim.numa_topology.cells]


def test_refusal_has_the_reasons_of_every_step():
    reasons = refused(device_host(), "gpu:3", vcpus=9, extra_resource={"VGPU": 1})
    assert {resource for _, resource, _ in reasons} == {"VCPU", "PCI gpu", "VGPU"}


def test_guest_without_devices_is_kept_away_from_cells_that_have_some():
    _, claim = built(device_host(record([gpu(GPU_0, 0)])), extra_specs=PINNED)
    assert cells(claim) == [1]
    _, claim = built(device_host(record([gpu(GPU_1, 1)])), extra_specs=PINNED)
    assert cells(claim) == [0]


def test_guest_is_refused_if_the_cell_of_its_devices_is_full_unless_affinity_is_only_preferred():
    state = device_host(record([gpu(GPU_0, 0)]))
    state, first = built(state, "gpu:1", vcpus=2, extra_specs=PINNED)
    assert cells(first) == [0]
    other = replace(state.devices[GPU_0], device=gpu(GPU_1, 0))
    state = replace(state, devices=state.devices.changed((), (other,)))
    reasons = refused(state, "gpu:1", extra_specs={**PINNED, **NEAR})
    assert (ReasonCode.INSUFFICIENT, "PCI gpu", 0) in reasons
    far = {**PINNED, "hw:pci_numa_affinity_policy": "preferred"}
    _, claim = built(state, "gpu:1", extra_specs=far)
    assert (cells(claim), addresses(claim)) == ([1], [GPU_1])


# -- units of other resource classes --------------------------------------------------------------


def vgpus(number=2, pmem=(PMEM,)):
    """Make a host with one GPU that can create so many virtual GPUs."""
    device = gpu(vgpus=number)
    return device_host(record([device]), pci=policy(mdev_types=(VGPU_TYPE,), pmem=pmem))


def identifiers(claim):
    return [unit.identifier for unit in claim.resources]


def test_quarantined_device_provides_only_the_mdevs_that_are_assigned():
    state, claim = built(vgpus(), extra_resource={"VGPU": 1})
    kept = replace(state.devices[GPU_0], quarantine="it is hot")
    state = replace(state, devices=state.devices.changed((), (kept,)))
    assert refused(state, extra_resource={"VGPU": 1}) == [(ReasonCode.INSUFFICIENT, "VGPU", 0)]
    assert reusable_by(state, claim.owner_id, [claim]).identifiers == set(identifiers(claim))
    inventories = allocatable_inventories(state)
    assert identifiers(claim)[0] in {name for each in inventories for name in each.identifiers}


def test_owner_may_reuse_what_its_claims_have():
    state, first = built(vgpus(), extra_resource={"VGPU": 2, PMEM.resource_class: 1})
    reusable = reusable_by(state, first.owner_id, [first])
    assert reusable.identifiers == {*identifiers(first)}
    state, second = built(device_host(), "gpu:1,vf:1")
    reusable = reusable_by(state, second.owner_id, [second])
    assert reusable.devices == {GPU_0: "gpu", vf(0): "vf"}
    assert reusable_by(state, second.owner_id, ()).devices == {}


def test_devices_of_a_domain_that_its_claims_have_are_those_of_the_claims():
    state, claim = built(device_host(), "gpu:1")
    state = audited(state, seen(state, domain(claim.owner_id, [GPU_0, GPU_1])))
    assert reusable_by(state, claim.owner_id, ()).devices == {GPU_1: ""}
