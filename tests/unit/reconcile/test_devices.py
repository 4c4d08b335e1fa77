"""The steps of an audit about devices, mediated devices and namespaces."""

from msgspec.structs import replace

from rtagent import claims
from rtagent.lifecycle.moves.steps import claimed_usage
from rtagent.model.claim import ACTIVE, BUILDING
from rtagent.model.device import Mdev, MdevType
from rtagent.model.domain_usage import HostResource, Occupancy
from rtagent.model.node_state import ASSIGNED_RESOURCES, device_key
from rtagent.pci.allocations import device_allocations
from rtagent.pci.mdev import mdev_uuid
from rtagent.pci.pmem import with_namespaces
from rtagent.reconcile.apply import apply
from rtagent.reconcile.drift import ABSENT, absent, drifts
from rtagent.reconcile.plan import plan
from rtagent.reconcile.steps import device_problems
from tests.support.device_states import (
    NAMESPACES,
    ONE_TIME,
    PMEM,
    VGPU_TYPE,
    addresses,
    attached,
    audited,
    built,
    device_host,
    domain,
    guest,
    policy,
    released,
    running,
    seen,
)
from tests.support.hosts import NODE, NOON, call, request, uid
from tests.support.pci_hosts import GPU_0, GPU_1, PF_0, gpu, nic, two_gpus_and_a_nic, vf

EVERYTHING = [each.device for each in two_gpus_and_a_nic().values()]


def keys(base, look):
    return [step.key for step in plan(base, look, frozenset())]


def lines(found):
    return [(each.resource, each.claimed, each.observed, each.problem) for each in found]


def with_type(available):
    made = MdevType(id="nvidia-11", device_api="vfio-pci", available_instances=available)
    return replace(gpu(GPU_0, 0), mdev_types=(made,))


# -- the record -----------------------------------------------------------------------------------


def test_devices_that_match_device_spec_are_recorded():
    state = audited(device_host({}), seen(device_host({}), devices=EVERYTHING))
    assert dict(state.devices) == two_gpus_and_a_nic()


def test_unchanged_devices_have_no_steps():
    state = device_host()
    assert keys(state, seen(state)) == []


def test_devices_stay_recorded_if_they_could_not_be_listed():
    state = device_host()
    assert keys(state, seen(state, listed=False, devices=[])) == []


def test_unplugged_device_is_removed_and_plugged_device_is_available():
    state = device_host()
    state = audited(state, seen(state, devices=[*nic(), gpu("0000:09:00.0", 1)]))
    assert GPU_0 not in state.devices
    _, claim = built(state, "gpu:1")
    assert addresses(claim) == ["0000:09:00.0"]


def test_unplugged_device_stays_with_its_claim_and_is_reported_absent():
    state, claim = built(device_host(), "gpu:1")
    state = audited(state, seen(state, guest(claim), devices=[*nic()]))
    assert addresses(state.claims[claim.uuid]) == [GPU_0]
    assert lines(absent(state)) == [
        (f"PCI device {GPU_0}", 1, 0, "AssignedResourceNotFound"),
    ]
    state = released(state, claim)
    state = audited(state, seen(state, devices=[*nic()]))
    assert GPU_0 not in state.devices


def test_claimed_device_that_left_device_spec_stays_and_is_reported_absent():
    state, claim = built(device_host(), "gpu:1")
    state = replace(state, policy=replace(state.policy, pci=policy(())))
    state = audited(state, seen(state, guest(claim), devices=EVERYTHING))
    assert list(state.devices) == [GPU_0]
    assert lines(absent(state)) == [
        (f"PCI device {GPU_0}", 1, 0, "AssignedResourceNotFound"),
    ]


def test_device_that_is_claimed_meanwhile_is_not_removed():
    base = device_host()
    now, _ = built(base, "gpu:1")
    look = seen(base, devices=[*nic()])
    change, outcome = apply(now, plan(base, look, frozenset()), base.revision, NOON)
    assert outcome.skipped == (device_key(GPU_0),)
    assert change.device_removals == (GPU_1,)


def test_device_that_is_claimed_and_released_meanwhile_is_not_removed():
    base = device_host()
    now, claim = built(base, "gpu:1")
    steps = plan(base, seen(base, devices=[*nic()]), frozenset())
    _, outcome = apply(released(now, claim), steps, base.revision, NOON)
    assert device_key(GPU_0) in outcome.skipped


def test_used_devices_outside_device_spec_are_recorded_before_their_relatives():
    base = device_host({})
    base = replace(base, policy=replace(base.policy, pci=policy(base.policy.pci.specs[1:2])))
    look = seen(base, domain("foreign", [vf(0)]), devices=[*nic()])
    order = [key for key in keys(base, look) if key.startswith("device:")]
    assert order == [device_key(vf(0)), device_key(PF_0)]


def test_devices_of_a_foreign_domain_are_allocated_to_it():
    base = device_host()
    state = audited(base, seen(base, domain("foreign", [GPU_0])))
    line = device_allocations(state).state(GPU_0)
    assert (line.state, line.owner_id) == ("allocated", "foreign")
    state = audited(state, seen(state))
    assert device_allocations(state).state(GPU_0).state == "available"


def test_device_that_becomes_one_time_use_when_it_is_freed_is_quarantined():
    """The same audit finds that its domain has detached the device."""
    state = device_host()
    state = audited(state, seen(state, domain("foreign", [GPU_0])))
    state = replace(state, policy=replace(state.policy, pci=policy(ONE_TIME)))
    state = audited(state, seen(state, domain("foreign"), devices=EVERYTHING))
    assert state.devices[GPU_0].quarantine is not None
    assert state.devices[GPU_1].quarantine is None


def test_device_of_a_shut_off_domain_is_not_used():
    state = device_host(pci=policy(ONE_TIME))
    state = audited(state, seen(state, devices=EVERYTHING))
    off = domain("foreign", [GPU_0], active=False)
    for look in (off, domain("foreign"), domain("foreign", [GPU_0])):
        state = audited(state, seen(state, look, devices=EVERYTHING))
        assert state.devices[GPU_0].quarantine is None
    state = audited(state, seen(state, off, devices=EVERYTHING))
    assert state.devices[GPU_0].quarantine is not None


def test_freed_one_time_device_is_quarantined_even_if_its_mediated_devices_are_claimed():
    base = device_host({}, pci=policy(ONE_TIME, mdev_types=(VGPU_TYPE,)))
    state = audited(base, seen(base, devices=[with_type(2)]))
    state, _ = built(state, extra_resource={"VGPU": 1})
    for has in ([GPU_0], []):
        state = audited(state, seen(state, domain("foreign", has), devices=[with_type(2)]))
    assert state.devices[GPU_0].quarantine is not None


def test_device_spec_that_is_invalid_for_a_device_is_reported():
    wrong = replace(ONE_TIME[0], product_id="154c", vendor_id="8086")
    state = device_host({}, pci=policy((wrong,)))
    look = seen(state, devices=[*nic(vfs=1)])
    (problem,) = device_problems(state, look)
    assert "one_time_use" in problem.message
    assert keys(state, look) == []


def test_devices_that_cannot_be_reported_to_placement_are_available():
    state = device_host({}, pci=policy(report_in_placement=True))
    look = seen(state, devices=[*nic(vfs=1)])
    (problem,) = device_problems(state, look)
    assert (problem.item, "report_in_placement" in problem.message) == ("[pci] device_spec", True)
    assert set(audited(state, look).devices) == {PF_0, vf(0)}


# -- what domains have ----------------------------------------------------------------------------


def test_guest_with_its_devices_does_not_drift():
    state, claim = built(device_host(), "gpu:1,vf:1")
    state = audited(state, seen(state, guest(claim)))
    assert state.claims[claim.uuid].state == ACTIVE
    assert not state.domain_usages


def test_missing_and_additional_devices_are_drift():
    state, claim = built(device_host(), "gpu:1")
    state = audited(state, seen(state, domain(claim.owner_id, [vf(1)])))
    assert lines(drifts(state)) == [
        (f"PCI device {GPU_0}", 1, 0, "QuantityDiffers"),
        (f"device {vf(1)}", 0, 1, "QuantityDiffers"),
    ]
    assert device_allocations(state).state(vf(1)).owner_id == claim.owner_id
    assert device_allocations(state).state(GPU_0).owner_id == claim.owner_id


def test_attached_devices_are_not_drift():
    state, main = built(device_host(), "gpu:1")
    state, added = attached(running(state, main), main, "vf")
    state = audited(state, seen(state, guest(main, added)))
    assert not state.domain_usages


def test_attach_claim_becomes_active_when_the_guest_has_its_devices():
    state, main = built(device_host())
    state, added = attached(running(state, main), main, "gpu")
    state = audited(state, seen(state, guest(main)))
    assert state.claims[added.uuid].state == BUILDING
    assert not state.domain_usages, "the device may or may not be there"
    state = audited(state, seen(state, guest(main, added)))
    assert state.claims[added.uuid].state == ACTIVE


def test_missing_device_of_an_active_attach_claim_is_drift():
    state, main = built(device_host())
    state, added = attached(running(state, main), main, "gpu")
    state = audited(state, seen(state, guest(main, added)))
    state = audited(state, seen(state, guest(main)))
    assert lines(drifts(state)) == [(f"PCI device {GPU_0}", 1, 0, "QuantityDiffers")]


def test_lapsed_attach_claim_expires_if_the_guest_lacks_its_devices():
    state, main = built(device_host())
    state, added = attached(running(state, main), main, "gpu")
    unread = replace(guest(main), vcpus=None)
    assert added.uuid in audited(state, seen(state, unread), lapsed={added.uuid}).claims
    state = audited(state, seen(state, guest(main)), lapsed={added.uuid})
    assert added.uuid not in state.claims
    assert main.uuid in state.claims


def test_device_of_an_expired_attach_claim_stays_allocated_while_the_guest_has_it():
    state, main = built(device_host())
    state, added = attached(running(state, main), main, "gpu", "vf")
    state = audited(state, seen(state, guest(main, devices=[GPU_0])), lapsed={added.uuid})
    assert added.uuid not in state.claims
    assert device_allocations(state).state(GPU_0).owner_id == main.owner_id
    _, other = built(state, "gpu:1")
    assert addresses(other) == [GPU_1]


def test_active_attach_claim_ends_with_its_expired_main_claim():
    """The main claim's lease has lapsed. The attach claim is active, and its domain is missing."""
    state, main = built(device_host())
    state, added = attached(state, main, "gpu")
    state = running(state, added)
    state = audited(state, seen(state), lapsed={main.uuid})
    assert not state.claims
    assert not state.units


def test_attach_claim_is_suspect_with_its_main_claim():
    state, main = built(device_host())
    state, added = attached(running(state, main), main, "gpu")
    state = audited(state, seen(state, guest(main, added)))
    state = audited(state, seen(state))
    assert [claim.suspect is not None for claim in state.claims_of(main.owner_id)] == [True, True]
    assert GPU_0 in addresses(state.claims[added.uuid])


# -- mediated devices and namespaces --------------------------------------------------------------


def vgpus():
    return device_host({}, pci=policy(mdev_types=(VGPU_TYPE,), pmem=(PMEM,)))


def test_mediated_devices_and_configured_namespaces_are_recorded():
    base = replace(vgpus(), resource_inventories=())
    state = audited(base, seen(base, devices=[with_type(2)]))
    assert [(each.provider, len(each.identifiers)) for each in state.resource_inventories] == [
        (GPU_0, 2),
        ("", 2),
    ]
    assert ASSIGNED_RESOURCES not in keys(state, seen(state, devices=[with_type(2)]))


def test_existing_mediated_device_of_a_claim_is_part_of_the_inventory():
    base = vgpus()
    state = audited(base, seen(base, devices=[with_type(2)]))
    state, claim = built(state, extra_resource={"VGPU": 1})
    uuid = mdev_uuid(NODE.uuid, claim.resources[0].identifier)
    mine = Mdev(uuid=uuid, type="nvidia-11", parent_addr=GPU_0)
    look = seen(state, domain(claim.owner_id, mdevs=[uuid]), devices=[with_type(1)], mdevs=[mine])
    after = audited(state, look)
    assert after.resource_inventories == state.resource_inventories
    assert not after.domain_usages
    theirs = replace(mine, uuid="another")
    after = audited(state, seen(state, devices=[with_type(1)], mdevs=[theirs]))
    assert len(after.resource_inventories[0].identifiers) == 1


def test_mediated_devices_that_another_program_creates_are_part_of_the_inventory():
    base, theirs = vgpus(), Mdev(uuid=uid(7), type="nvidia-11", parent_addr=GPU_0)
    look = seen(base, devices=[with_type(1)], mdevs=[theirs])
    (own, _), (every, _) = (
        audited(base, replace(look, mdevs_of_others=of_others)).resource_inventories
        for of_others in (False, True)
    )
    assert own.identifiers == (f"{GPU_0}/nvidia-11/0",)
    assert every.identifiers == (*own.identifiers, f"{GPU_0}/nvidia-11/{uid(7)}")


def test_mediated_device_of_a_foreign_domain_is_unavailable():
    base = vgpus()
    state = audited(base, seen(base, devices=[with_type(2)]))
    first = state.resource_inventories[0].identifiers[0]
    used = domain("foreign", mdevs=[mdev_uuid(NODE.uuid, first)])
    state = audited(state, seen(state, used, devices=[with_type(2)]))
    _, claim = built(state, extra_resource={"VGPU": 1})
    assert claim.resources[0].identifier == state.resource_inventories[0].identifiers[1]


def test_parent_of_a_mediated_device_that_the_host_does_not_list_is_unknown():
    base = vgpus()
    used = domain("foreign", mdevs=[uid(7)])
    state = audited(base, seen(base, used, devices=[with_type(2)]))
    assert state.domain_usages["foreign"].occupancy.unknown == {HostResource.DEVICES}
    listed = Mdev(uuid=uid(7), type="nvidia-11", parent_addr=GPU_0)
    state = audited(state, seen(state, used, devices=[with_type(2)], mdevs=[listed]))
    assert state.domain_usages["foreign"].occupancy.unknown == frozenset()


def test_inventory_never_exceeds_what_a_device_can_make():
    """The last of three is claimed; a foreign mediated device takes the place of another."""
    base = vgpus()
    state = audited(base, seen(base, devices=[with_type(3)]))
    last = state.resource_inventories[0].identifiers[-1]
    state, _ = built(state, extra_resource={"VGPU": (last,)})
    mine = Mdev(uuid=mdev_uuid(NODE.uuid, last), type="nvidia-11", parent_addr=GPU_0)
    theirs = replace(mine, uuid="another")
    for there, free in (([theirs], 2), ([mine, theirs], 1)):
        after = audited(state, seen(state, devices=[with_type(free)], mdevs=there))
        assert absent(after) == ()
        after, _ = built(after, extra_resource={"VGPU": 1})
        again = claims.instance_claim(after, call(), NOON, request(extra_resource={"VGPU": 1}))
        assert [reason.available for reason in again.reasons] == [0]


def test_claims_beyond_what_a_device_can_make_use_up_what_is_released():
    base = vgpus()
    state = audited(base, seen(base, devices=[with_type(2)]))
    state, first = built(state, extra_resource={"VGPU": 1})
    state, second = built(state, extra_resource={"VGPU": 1})
    theirs = Mdev(uuid="another", type="nvidia-11", parent_addr=GPU_0)
    state = audited(state, seen(state, devices=[with_type(1)], mdevs=[theirs]))
    assert [drift.owner_id for drift in absent(state)] == [second.owner_id]
    again = claims.instance_claim(
        released(state, first), call(), NOON, request(extra_resource={"VGPU": 1})
    )
    assert [reason.available for reason in again.reasons] == [0]


def test_parent_of_a_used_mediated_device_is_unavailable_as_a_whole():
    """The mediated device is foreign, or of a type that is not enabled any more."""
    state = device_host()
    theirs = Mdev(uuid="another", type="nvidia-11", parent_addr=GPU_0)
    state = audited(state, seen(state, domain("foreign", mdevs=["another"]), mdevs=[theirs]))
    assert device_allocations(state).state(GPU_0).owner_id == "foreign"
    _, claim = built(state, "gpu:1")
    assert addresses(claim) == [GPU_1]
    state = audited(state, seen(state, domain("foreign"), mdevs=[theirs]))
    assert device_allocations(state).state(GPU_0).state == "available"


def test_absent_assigned_resources_stay_with_their_claim_and_are_reported():
    base = vgpus()
    state = audited(base, seen(base, devices=[with_type(1)]))
    state, claim = built(state, extra_resource={"VGPU": 1, PMEM.resource_class: 2})
    state = replace(state, policy=replace(state.policy, pci=policy(mdev_types=(VGPU_TYPE,))))
    state = audited(state, seen(state, devices=[]))
    assert state.resource_inventories == ()
    assert state.claims[claim.uuid].resources == claim.resources
    assert [each.resource for each in absent(state)] == [
        f"{unit.resource_class} {unit.identifier}" for unit in claim.resources
    ]


def test_inventories_stay_if_devices_could_not_be_listed():
    base = vgpus()
    state = audited(base, seen(base, devices=[with_type(2)]))
    assert ASSIGNED_RESOURCES not in keys(state, seen(state, listed=False))


def test_missing_mediated_device_is_drift():
    base = vgpus()
    state = audited(base, seen(base, devices=[with_type(2)]))
    state, claim = built(state, extra_resource={"VGPU": 1})
    state = audited(state, seen(state, domain(claim.owner_id), devices=[with_type(2)]))
    (drift,) = drifts(state)
    assert drift.resource == f"VGPU {claim.resources[0].identifier}"


# -- persistent memory ----------------------------------------------------------------------------


def test_namespaces_are_offered_as_the_host_has_them():
    state = device_host({}, pci=policy(pmem=(PMEM,)))
    moved = replace(NAMESPACES[0], path="/dev/dax7.0")
    state = audited(state, seen(state, namespaces=[moved]))
    (inventory,) = state.resource_inventories
    assert (inventory.identifiers, inventory.namespaces) == (("ns0",), (moved,))
    _, claim = built(state, extra_specs={"hw:pmem": "4GB"})
    assert claim.resources[0].namespace == moved
    assert audited(state, replace(seen(state), namespaces=None)) == state


def test_namespace_that_vanishes_stays_with_its_holder_and_is_reported():
    state, claim = built(device_host({}, pci=policy(pmem=(PMEM,))), extra_specs={"hw:pmem": "4GB"})
    (unit,) = claim.resources
    state = audited(state, seen(state, namespaces=NAMESPACES[1:]))
    assert state.claims[claim.uuid].resources == (unit,)
    (found,) = absent(state)
    assert (found.resource, found.problem) == (f"{PMEM.resource_class} ns0", ABSENT)
    _, other = built(state, extra_specs={"hw:pmem": "4GB"})
    assert [each.identifier for each in other.resources] == ["ns1"]
    refused = claims.instance_claim(
        state, call(), NOON, request(extra_specs={"hw:pmem": "4GB,4GB"})
    )
    assert [(r.requested, r.available) for r in refused.reasons] == [(2, 1)]


def test_namespace_that_a_domain_without_a_claim_uses_is_not_granted():
    state = device_host({}, pci=policy(pmem=(PMEM,)))
    foreign = domain(uid())
    foreign = replace(foreign, occupancy=Occupancy(namespaces=frozenset({"ns0"})))
    state = audited(state, seen(state, foreign))
    state, claim = built(state, extra_specs={"hw:pmem": "4GB"})
    assert [each.identifier for each in claim.resources] == ["ns1"]
    stopped = replace(foreign, active=False)
    state = audited(state, seen(state, stopped, guest_with(claim)))
    _, other = built(state, extra_specs={"hw:pmem": "4GB"})
    assert [each.identifier for each in other.resources] == ["ns0"]


def test_domain_with_other_namespaces_than_its_claim_is_drift():
    state, claim = built(device_host({}, pci=policy(pmem=(PMEM,))), extra_specs={"hw:pmem": "4GB"})
    state = audited(state, seen(state, guest_with(claim)))
    assert drifts(state) == ()
    wrong = replace(guest_with(claim), occupancy=Occupancy(namespaces=frozenset({"ns1"})))
    state = audited(state, seen(state, wrong))
    found = {each.resource: (each.claimed, each.observed) for each in drifts(state)}
    assert found == {f"{PMEM.resource_class} ns0": (1, 0), "device ns1": (0, 1)}


def guest_with(claim):
    """The claim's domain, with its namespaces."""
    usage = claimed_usage(claim)
    return replace(guest(claim), occupancy=usage.occupancy)


def test_a_claim_is_shown_with_its_namespaces_as_they_are_now():
    state, claim = built(device_host({}, pci=policy(pmem=(PMEM,))), extra_specs={"hw:pmem": "4GB"})
    moved = replace(NAMESPACES[0], path="/dev/dax7.0")
    state = audited(state, seen(state, namespaces=[moved]))
    assert with_namespaces(claim, state).resources[0].namespace == moved
    state = audited(state, seen(state, namespaces=[]))
    assert with_namespaces(claim, state) == claim
