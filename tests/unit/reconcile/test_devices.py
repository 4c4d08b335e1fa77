"""What an audit makes of devices."""

from msgspec.structs import replace

from rtagent import claims
from rtagent.model.claim import ACTIVE, BUILDING
from rtagent.model.device import Mdev, MdevType
from rtagent.model.host import device_key
from rtagent.pci.holds import holdings
from rtagent.pci.mdev import mdev_uuid
from rtagent.reconcile.apply import apply
from rtagent.reconcile.devices import SPECIFIC, device_problems
from rtagent.reconcile.plan import plan
from rtagent.views import absent, drifts
from tests.builders import NODE, NOON, call, request
from tests.device_states import (
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
from tests.pci_hosts import GPU_0, GPU_1, PF_0, gpu, nic, two_gpus_and_a_nic, vf

EVERYTHING = [each.device for each in two_gpus_and_a_nic().values()]


def keys(base, look):
    return [step.key for step in plan(base, look, frozenset())]


def told(found):
    return [(each.resource, each.claimed, each.observed, each.problem) for each in found]


def with_type(available):
    made = MdevType(id="nvidia-11", device_api="vfio-pci", available_instances=available)
    return replace(gpu(GPU_0, 0), mdev_types=(made,))


# -- the record -----------------------------------------------------------------------------------


def test_what_the_host_has_and_the_operator_offers_is_recorded():
    state = audited(device_host({}), seen(device_host({}), devices=EVERYTHING))
    assert dict(state.devices) == two_gpus_and_a_nic()


def test_nothing_new_is_no_step_at_all():
    state = device_host()
    assert keys(state, seen(state)) == []


def test_devices_that_could_not_be_listed_stay_as_they_are():
    state = device_host()
    assert keys(state, seen(state, listed=False, devices=[])) == []


def test_a_device_that_goes_is_forgotten_and_one_that_comes_is_offered():
    state = device_host()
    state = audited(state, seen(state, devices=[*nic(), gpu("0000:09:00.0", 1)]))
    assert GPU_0 not in state.devices
    _, claim = built(state, "gpu:1")
    assert addresses(claim) == ["0000:09:00.0"]


def test_a_held_device_that_goes_stays_with_its_holder_and_is_told_of():
    state, claim = built(device_host(), "gpu:1")
    state = audited(state, seen(state, guest(claim), devices=[*nic()]))
    assert addresses(state.claims[claim.uuid]) == [GPU_0]
    assert told(absent(state)) == [
        (f"PCI device {GPU_0}", 1, 0, "AssignedResourceNotFound"),
    ]
    state = released(state, claim)
    state = audited(state, seen(state, devices=[*nic()]))
    assert GPU_0 not in state.devices


def test_a_held_device_that_is_offered_no_more_likewise():
    state, claim = built(device_host(), "gpu:1")
    state = replace(state, policy=replace(state.policy, pci=policy(())))
    state = audited(state, seen(state, guest(claim), devices=EVERYTHING))
    assert list(state.devices) == [GPU_0]
    assert told(absent(state)) == [
        (f"PCI device {GPU_0}", 1, 0, "AssignedResourceNotFound"),
    ]


def test_an_audit_does_not_forget_a_device_that_was_claimed_meanwhile():
    base = device_host()
    now, _ = built(base, "gpu:1")
    look = seen(base, devices=[*nic()])
    change, outcome = apply(now, plan(base, look, frozenset()), base.revision, NOON)
    assert outcome.skipped == (device_key(GPU_0),)
    assert change.device_removals == (GPU_1,)


def test_nor_one_that_was_claimed_and_let_go_of_meanwhile():
    base = device_host()
    now, claim = built(base, "gpu:1")
    steps = plan(base, seen(base, devices=[*nic()]), frozenset())
    _, outcome = apply(released(now, claim), steps, base.revision, NOON)
    assert device_key(GPU_0) in outcome.skipped


def test_what_nobody_offers_is_recorded_before_its_relatives_are():
    base = device_host({})
    base = replace(base, policy=replace(base.policy, pci=policy(base.policy.pci.specs[1:2])))
    look = seen(base, domain("foreign", [vf(0)]), devices=[*nic()])
    order = [key for key in keys(base, look) if key.startswith("device:")]
    assert order == [device_key(vf(0)), device_key(PF_0)]


def test_a_domains_devices_are_its_own_from_the_audit_on_that_sees_them():
    base = device_host()
    state = audited(base, seen(base, domain("foreign", [GPU_0])))
    line = holdings(state).state(GPU_0)
    assert (line.state, line.owner_id) == ("allocated", "foreign")
    state = audited(state, seen(state))
    assert holdings(state).state(GPU_0).state == "available"


def test_a_device_is_for_one_use_from_the_audit_on_that_says_so():
    """Even if it is the one that finds that its domain has let go of it."""
    state = device_host()
    state = audited(state, seen(state, domain("foreign", [GPU_0])))
    state = replace(state, policy=replace(state.policy, pci=policy(ONE_TIME)))
    state = audited(state, seen(state, domain("foreign"), devices=EVERYTHING))
    assert state.devices[GPU_0].quarantine is not None
    assert state.devices[GPU_1].quarantine is None


def test_a_device_that_a_domain_is_only_defined_with_is_not_used():
    state = device_host(pci=policy(ONE_TIME))
    state = audited(state, seen(state, devices=EVERYTHING))
    off = domain("foreign", [GPU_0], active=False)
    for look in (off, domain("foreign"), domain("foreign", [GPU_0])):
        state = audited(state, seen(state, look, devices=EVERYTHING))
        assert state.devices[GPU_0].quarantine is None
    state = audited(state, seen(state, off, devices=EVERYTHING))
    assert state.devices[GPU_0].quarantine is not None


def test_a_device_that_was_used_whole_is_kept_back_though_parts_of_it_are_held():
    base = device_host({}, pci=policy(ONE_TIME, mdev_types=(VGPU_TYPE,)))
    state = audited(base, seen(base, devices=[with_type(2)]))
    state, _ = built(state, extra_resource={"VGPU": 1})
    for has in ([GPU_0], []):
        state = audited(state, seen(state, domain("foreign", has), devices=[with_type(2)]))
    assert state.devices[GPU_0].quarantine is not None


def test_specifications_that_are_wrong_for_a_device_are_told_of():
    wrong = replace(ONE_TIME[0], product_id="154c", vendor_id="8086")
    state = device_host({}, pci=policy((wrong,)))
    look = seen(state, devices=[*nic(vfs=1)])
    (problem,) = device_problems(state, look)
    assert "one_time_use" in problem.message
    assert keys(state, look) == []


def test_devices_that_placement_cannot_be_told_of_are_offered_all_the_same():
    state = device_host({}, pci=policy(report_in_placement=True))
    look = seen(state, devices=[*nic(vfs=1)])
    (problem,) = device_problems(state, look)
    assert (problem.item, "report_in_placement" in problem.message) == ("[pci] device_spec", True)
    assert set(audited(state, look).devices) == {PF_0, vf(0)}


# -- what domains have ----------------------------------------------------------------------------


def test_a_guest_with_its_devices_is_no_drift():
    state, claim = built(device_host(), "gpu:1,vf:1")
    state = audited(state, seen(state, guest(claim)))
    assert state.claims[claim.uuid].state == ACTIVE
    assert not state.holdings


def test_a_guest_without_one_or_with_another_is_drift_device_by_device():
    state, claim = built(device_host(), "gpu:1")
    state = audited(state, seen(state, domain(claim.owner_id, [vf(1)])))
    assert told(drifts(state)) == [
        (f"PCI device {GPU_0}", 1, 0, "AmountDiffers"),
        (f"device {vf(1)}", 0, 1, "AmountDiffers"),
    ]
    assert holdings(state).state(vf(1)).owner_id == claim.owner_id
    assert holdings(state).state(GPU_0).owner_id == claim.owner_id


def test_what_was_added_to_a_guest_is_no_drift():
    state, main = built(device_host(), "gpu:1")
    state, added = attached(running(state, main), main, "vf")
    state = audited(state, seen(state, guest(main, added)))
    assert not state.holdings


def test_an_attach_claim_is_active_when_the_guest_has_its_devices():
    state, main = built(device_host())
    state, added = attached(running(state, main), main, "gpu")
    state = audited(state, seen(state, guest(main)))
    assert state.claims[added.uuid].state == BUILDING
    assert not state.holdings, "it may be there, and need not"
    state = audited(state, seen(state, guest(main, added)))
    assert state.claims[added.uuid].state == ACTIVE


def test_an_attach_claim_expires_when_the_guest_has_not_got_its_devices():
    state, main = built(device_host())
    state, added = attached(running(state, main), main, "gpu")
    unread = replace(guest(main), vcpus=None)
    assert added.uuid in audited(state, seen(state, unread), lapsed={added.uuid}).claims
    state = audited(state, seen(state, guest(main)), lapsed={added.uuid})
    assert added.uuid not in state.claims
    assert main.uuid in state.claims


def test_what_a_guest_has_got_of_an_attach_claim_that_expires_stays_its_own():
    state, main = built(device_host())
    state, added = attached(running(state, main), main, "gpu", "vf")
    state = audited(state, seen(state, guest(main, devices=[GPU_0])), lapsed={added.uuid})
    assert added.uuid not in state.claims
    assert holdings(state).state(GPU_0).owner_id == main.owner_id
    _, other = built(state, "gpu:1")
    assert addresses(other) == [GPU_1]


def test_an_attach_claim_ends_with_its_main_one_even_if_it_is_missed_itself():
    """The lease of the main claim has run out; the other had been activated, and has no domain."""
    state, main = built(device_host())
    state, added = attached(state, main, "gpu")
    state = running(state, added)
    state = audited(state, seen(state), lapsed={main.uuid})
    assert not state.claims
    assert not state.units


def test_an_attach_claim_of_a_domain_that_is_gone_is_suspect_with_the_other():
    state, main = built(device_host())
    state, added = attached(running(state, main), main, "gpu")
    state = audited(state, seen(state, guest(main, added)))
    state = audited(state, seen(state))
    assert [claim.suspect is not None for claim in state.claims_of(main.owner_id)] == [True, True]
    assert GPU_0 in addresses(state.claims[added.uuid])


# -- mediated devices and namespaces --------------------------------------------------------------


def vgpus():
    return device_host({}, pci=policy(mdev_types=(VGPU_TYPE,), pmem=(PMEM,)))


def test_what_devices_make_and_the_operator_names_is_recorded():
    base = replace(vgpus(), specific=())
    state = audited(base, seen(base, devices=[with_type(2)]))
    assert [(each.provider, len(each.identifiers)) for each in state.specific] == [
        (GPU_0, 2),
        ("", 2),
    ]
    assert SPECIFIC not in keys(state, seen(state, devices=[with_type(2)]))


def test_a_mediated_device_of_ours_is_one_of_those_that_there_are():
    base = vgpus()
    state = audited(base, seen(base, devices=[with_type(2)]))
    state, claim = built(state, extra_resource={"VGPU": 1})
    uuid = mdev_uuid(NODE.uuid, claim.resources[0].identifier)
    mine = Mdev(uuid=uuid, type="nvidia-11", parent_addr=GPU_0)
    look = seen(state, domain(claim.owner_id, mdevs=[uuid]), devices=[with_type(1)], mdevs=[mine])
    after = audited(state, look)
    assert after.specific == state.specific
    assert not after.holdings
    theirs = replace(mine, uuid="another")
    after = audited(state, seen(state, devices=[with_type(1)], mdevs=[theirs]))
    assert len(after.specific[0].identifiers) == 1


def test_a_mediated_device_in_a_domain_without_a_claim_is_not_given():
    base = vgpus()
    state = audited(base, seen(base, devices=[with_type(2)]))
    first = state.specific[0].identifiers[0]
    used = domain("foreign", mdevs=[mdev_uuid(NODE.uuid, first)])
    state = audited(state, seen(state, used, devices=[with_type(2)]))
    _, claim = built(state, extra_resource={"VGPU": 1})
    assert claim.resources[0].identifier == state.specific[0].identifiers[1]


def test_a_device_makes_no_more_than_it_can_whichever_of_them_is_held():
    """The last of three is held; a mediated device of somebody else's takes the place of one."""
    base = vgpus()
    state = audited(base, seen(base, devices=[with_type(3)]))
    last = state.specific[0].identifiers[-1]
    state, _ = built(state, extra_resource={"VGPU": (last,)})
    mine = Mdev(uuid=mdev_uuid(NODE.uuid, last), type="nvidia-11", parent_addr=GPU_0)
    theirs = replace(mine, uuid="another")
    for there, free in (([theirs], 2), ([mine, theirs], 1)):
        after = audited(state, seen(state, devices=[with_type(free)], mdevs=there))
        assert absent(after) == ()
        after, _ = built(after, extra_resource={"VGPU": 1})
        again = claims.build(after, request(extra_resource={"VGPU": 1}), call(), NOON)
        assert [reason.available for reason in again.reasons] == [0]


def test_what_is_held_beyond_what_a_device_makes_is_in_the_place_of_what_is_released():
    base = vgpus()
    state = audited(base, seen(base, devices=[with_type(2)]))
    state, first = built(state, extra_resource={"VGPU": 1})
    state, second = built(state, extra_resource={"VGPU": 1})
    theirs = Mdev(uuid="another", type="nvidia-11", parent_addr=GPU_0)
    state = audited(state, seen(state, devices=[with_type(1)], mdevs=[theirs]))
    assert [drift.owner_id for drift in absent(state)] == [second.owner_id]
    again = claims.build(released(state, first), request(extra_resource={"VGPU": 1}), call(), NOON)
    assert [reason.available for reason in again.reasons] == [0]


def test_a_device_of_which_a_domain_uses_a_part_is_not_given_away_whole():
    """Whatever that part is: one of ours that the operator offers no more, or somebody else's."""
    state = device_host()
    theirs = Mdev(uuid="another", type="nvidia-11", parent_addr=GPU_0)
    state = audited(state, seen(state, domain("foreign", mdevs=["another"]), mdevs=[theirs]))
    assert holdings(state).state(GPU_0).owner_id == "foreign"
    _, claim = built(state, "gpu:1")
    assert addresses(claim) == [GPU_1]
    state = audited(state, seen(state, domain("foreign"), mdevs=[theirs]))
    assert holdings(state).state(GPU_0).state == "available"


def test_members_that_vanish_stay_with_their_holder_and_are_told_of():
    base = vgpus()
    state = audited(base, seen(base, devices=[with_type(1)]))
    state, claim = built(state, extra_resource={"VGPU": 1, PMEM.resource_class: 2})
    state = replace(state, policy=replace(state.policy, pci=policy(mdev_types=(VGPU_TYPE,))))
    state = audited(state, seen(state, devices=[]))
    assert state.specific == ()
    assert state.claims[claim.uuid].resources == claim.resources
    assert [each.resource for each in absent(state)] == [
        f"{unit.resource_class} {unit.identifier}" for unit in claim.resources
    ]


def test_what_devices_make_stays_when_they_could_not_be_listed():
    base = vgpus()
    state = audited(base, seen(base, devices=[with_type(2)]))
    assert SPECIFIC not in keys(state, seen(state, listed=False))


def test_a_guest_without_its_mediated_device_is_drift():
    base = vgpus()
    state = audited(base, seen(base, devices=[with_type(2)]))
    state, claim = built(state, extra_resource={"VGPU": 1})
    state = audited(state, seen(state, domain(claim.owner_id), devices=[with_type(2)]))
    (drift,) = drifts(state)
    assert drift.resource == f"VGPU {claim.resources[0].identifier}"
