"""The steps of an audit about devices, mediated devices and namespaces."""

from msgspec.structs import replace

from rtagent.lifecycle.moves.steps import claimed_usage
from rtagent.model.device import Mdev
from rtagent.model.domain_usage import HostResource, Occupancy
from rtagent.model.node_state import device_key
from rtagent.pci.allocations import device_allocations
from rtagent.pci.pmem import with_namespaces
from rtagent.reconcile.drift import ABSENT, absent, drifts
from rtagent.reconcile.plan import plan
from rtagent.reconcile.steps import device_problems
from tests.support.device_states import (
    NAMESPACES,
    ONE_TIME,
    PMEM,
    VGPU_TYPE,
    attached,
    audited,
    built,
    device_host,
    domain,
    guest,
    policy,
    refusal,
    released,
    running,
    seen,
)
from tests.support.hosts import request, uid
from tests.support.pci_hosts import GPU_0, PF_0, gpu, nic, vf


def keys(base, look):
    return [step.key for step in plan(base, look, frozenset())]


def lines(found):
    return [(each.resource, each.claimed, each.observed, each.problem) for each in found]


# -- the record -----------------------------------------------------------------------------------


def test_freed_one_time_device_is_quarantined_even_if_its_mediated_devices_are_claimed():
    state, _ = built(vgpus(2, specs=ONE_TIME), extra_resource={"VGPU": 1})
    for has in ([GPU_0], []):
        state = audited(state, seen(state, domain("foreign", has), devices=[gpu(vgpus=2)]))
    assert state.devices[GPU_0].quarantine is not None


def test_devices_that_cannot_be_reported_to_placement_are_available():
    state = device_host({}, pci=policy(report_in_placement=True))
    look = seen(state, devices=[*nic(vfs=1)])
    (problem,) = device_problems(state, look)
    assert (problem.item, "report_in_placement" in problem.message) == ("[pci] device_spec", True)
    assert set(audited(state, look).devices) == {PF_0, vf(0)}


def test_used_devices_outside_device_spec_are_recorded_before_their_relatives():
    base = device_host({})
    base = replace(base, policy=replace(base.policy, pci=policy(base.policy.pci.specs[1:2])))
    look = seen(base, domain("foreign", [vf(0)]), devices=[*nic()])
    order = [key for key in keys(base, look) if key.startswith("device:")]
    assert order == [device_key(vf(0)), device_key(PF_0)]


# -- what domains have ----------------------------------------------------------------------------


def test_missing_and_additional_devices_are_drift():
    state, claim = built(device_host(), "gpu:1")
    state = audited(state, seen(state, domain(claim.owner_id, [vf(1)])))
    missing = (f"PCI device {GPU_0}", 1, 0, "QuantityDiffers")
    assert lines(drifts(state)) == [missing, (f"device {vf(1)}", 0, 1, "QuantityDiffers")]
    assert device_allocations(state).state(vf(1)).owner_id == claim.owner_id
    assert device_allocations(state).state(GPU_0).owner_id == claim.owner_id


def test_missing_device_of_an_active_attach_claim_is_drift():
    state, main = built(device_host())
    state, added = attached(running(state, main), main, "gpu")
    state = audited(state, seen(state, guest(main, added)))
    state = audited(state, seen(state, guest(main)))
    assert lines(drifts(state)) == [(f"PCI device {GPU_0}", 1, 0, "QuantityDiffers")]


# -- mediated devices and namespaces --------------------------------------------------------------


def vgpus(number, **more):
    """A host whose GPU can make so many virtual GPUs."""
    base = device_host({}, pci=policy(mdev_types=(VGPU_TYPE,), **more))
    return audited(base, seen(base, devices=[gpu(vgpus=number)]))


def test_mediated_devices_that_another_program_creates_are_part_of_the_inventory():
    base, theirs = vgpus(1), Mdev(uuid=uid(7), type="nvidia-11", parent_addr=GPU_0)
    look = seen(base, devices=[gpu(vgpus=1)], mdevs=[theirs])
    (own,), (every,) = (
        audited(base, replace(look, mdevs_of_others=of_others)).resource_inventories
        for of_others in (False, True)
    )
    assert own.identifiers == (f"{GPU_0}/nvidia-11/0",)
    assert every.identifiers == (*own.identifiers, f"{GPU_0}/nvidia-11/{uid(7)}")


def test_claims_beyond_what_a_device_can_make_use_up_what_is_released():
    state = vgpus(2)
    state, first = built(state, extra_resource={"VGPU": 1})
    state, second = built(state, extra_resource={"VGPU": 1})
    theirs = Mdev(uuid="another", type="nvidia-11", parent_addr=GPU_0)
    state = audited(state, seen(state, devices=[gpu(vgpus=1)], mdevs=[theirs]))
    assert [drift.owner_id for drift in absent(state)] == [second.owner_id]
    again = refusal(released(state, first), request(extra_resource={"VGPU": 1}))
    assert [reason.available for reason in again.reasons] == [0]


def test_devices_and_inventories_stay_if_devices_could_not_be_listed():
    state = vgpus(2)
    assert keys(state, seen(state, listed=False, devices=[])) == []


def test_parent_of_a_mediated_device_that_the_host_does_not_list_is_unknown():
    state, used = vgpus(2), domain("foreign", mdevs=[uid(7)])
    state = audited(state, seen(state, used, devices=[gpu(vgpus=2)]))
    assert state.domain_usages["foreign"].occupancy.unknown == {HostResource.DEVICES}
    listed = Mdev(uuid=uid(7), type="nvidia-11", parent_addr=GPU_0)
    state = audited(state, seen(state, used, devices=[gpu(vgpus=2)], mdevs=[listed]))
    assert state.domain_usages["foreign"].occupancy.unknown == frozenset()


def test_missing_mediated_device_is_drift():
    state = vgpus(2)
    state, claim = built(state, extra_resource={"VGPU": 1})
    state = audited(state, seen(state, domain(claim.owner_id), devices=[gpu(vgpus=2)]))
    (drift,) = drifts(state)
    assert drift.resource == f"VGPU {claim.resources[0].identifier}"


# -- persistent memory ----------------------------------------------------------------------------


PMEM_4GB = {"hw:pmem": "4GB"}


def pmem_host():
    return device_host({}, pci=policy(pmem=(PMEM,)))


def test_namespaces_are_offered_as_the_host_has_them():
    state = pmem_host()
    moved = replace(NAMESPACES[0], path="/dev/dax7.0")
    state = audited(state, seen(state, namespaces=[moved]))
    (inventory,) = state.resource_inventories
    assert (inventory.identifiers, inventory.namespaces) == (("ns0",), (moved,))
    _, claim = built(state, extra_specs=PMEM_4GB)
    assert claim.resources[0].namespace == moved
    assert audited(state, replace(seen(state), namespaces=None)) == state


def test_namespace_that_vanishes_stays_with_its_holder_and_is_reported():
    state, claim = built(pmem_host(), extra_specs=PMEM_4GB)
    (unit,) = claim.resources
    state = audited(state, seen(state, namespaces=NAMESPACES[1:]))
    assert state.claims[claim.uuid].resources == (unit,)
    (found,) = absent(state)
    assert (found.resource, found.problem) == (f"{PMEM.resource_class} ns0", ABSENT)
    _, other = built(state, extra_specs=PMEM_4GB)
    assert [each.identifier for each in other.resources] == ["ns1"]
    refused = refusal(state, request(extra_specs={"hw:pmem": "4GB,4GB"}))
    assert [(r.requested, r.available) for r in refused.reasons] == [(2, 1)]


def test_domain_with_other_namespaces_than_its_claim_is_drift():
    state, claim = built(pmem_host(), extra_specs=PMEM_4GB)
    state = audited(state, seen(state, guest_with(claim)))
    assert drifts(state) == ()
    wrong = replace(guest_with(claim), occupancy=Occupancy(namespaces=frozenset({"ns1"})))
    state = audited(state, seen(state, wrong))
    found = {each.resource: (each.claimed, each.observed) for each in drifts(state)}
    assert found == {f"{PMEM.resource_class} ns0": (1, 0), "device ns1": (0, 1)}


def guest_with(claim):
    """The claim's domain, with its namespaces."""
    return replace(guest(claim), occupancy=claimed_usage(claim).occupancy)


def test_a_claim_is_shown_with_its_namespaces_as_they_are_now():
    state, claim = built(pmem_host(), extra_specs=PMEM_4GB)
    moved = replace(NAMESPACES[0], path="/dev/dax7.0")
    state = audited(state, seen(state, namespaces=[moved]))
    assert with_namespaces(claim, state).resources[0].namespace == moved
    state = audited(state, seen(state, namespaces=[]))
    assert with_namespaces(claim, state) == claim
