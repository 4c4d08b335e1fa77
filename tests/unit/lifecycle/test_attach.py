"""Attach claims: devices that are added to a guest, and removed from it; devices in quarantine."""

import pytest

from rtagent import claims, errors
from rtagent.lifecycle import attach
from rtagent.lifecycle.attach import quarantine
from rtagent.model.claim import ATTACH, BUILDING, PCI
from rtagent.model.decision import Refused
from rtagent.model.request import AttachRequest, Flavor, Instance, PciRequest
from rtagent.pci.allocations import device_allocations
from rtagent.pci.specs import USED_ONCE
from tests.support.device_states import (
    ONE_TIME,
    addresses,
    after,
    attached,
    attaching,
    audited,
    built,
    device_host,
    domain,
    policy,
    released,
    running,
    seen,
)
from tests.support.hosts import NOON, call, host, uid
from tests.support.pci_hosts import GPU_0, GPU_1, gpu, record, vf


def end(state, owner, verb, claim_uuid=None, devices=()):
    """The decision on a call that ends claims or gives devices back."""
    return attach.end_pci_claims(state, call(), NOON, owner, claim_uuid, verb, devices)


def ended(state, owner, verb, claim_uuid=None, devices=()):
    new = state.fold(end(state, owner, verb, claim_uuid, devices).change)
    new.check()
    return new


def activated(state, claim):
    asked = call("allocate_pci_devices_for_instance")
    return after(state, attach.allocate_pci_devices(state, asked, NOON, claim.owner_id, claim.uuid))


def test_devices_follow_the_guests_numa_affinity_policy():
    pinned = {"hw:cpu_policy": "dedicated", "hw:pci_numa_affinity_policy": "required"}
    state, main = built(device_host(), "vf:1", extra_specs=pinned)
    state, _ = attached(state, main, "gpu")
    refused = attach.claim_pci_devices(state, call(), NOON, attaching(main, "gpu"))
    assert "cells 0" in str(refused)


def test_instance_without_a_claim_here_is_not_found():
    _, main = built(device_host())
    with pytest.raises(errors.ClaimNotFound, match=f"^instance {main.owner_id} has no claim here$"):
        attach.claim_pci_devices(device_host(), call(), NOON, attaching(main, "gpu"))


def test_uuid_of_another_claim_is_a_conflict():
    state, main = built(device_host())
    with pytest.raises(errors.ClaimConflict):
        attach.claim_pci_devices(state, call(operation_id=main.uuid), NOON, attaching(main, "gpu"))


def test_attach_is_refused_on_a_host_that_was_never_observed():
    _, main = built(device_host())
    with pytest.raises(errors.NodeNotReady):
        attach.claim_pci_devices(host(None), call(), NOON, attaching(main, "gpu"))


def test_building_and_active_attach_claims_end_separately():
    state, main = built(device_host())
    state, first = attached(state, main, "gpu")
    state, _ = activated(state, first)
    state, second = attached(state, main, "vf")
    assert first.uuid in ended(state, main.owner_id, "unclaim").claims
    assert second.uuid not in ended(state, main.owner_id, "unclaim").claims
    assert first.uuid not in ended(state, main.owner_id, "free").claims
    assert second.uuid in ended(state, main.owner_id, "free").claims
    assert second.uuid not in ended(state, main.owner_id, "unclaim", second.uuid).claims
    with pytest.raises(errors.IllegalTransition, match=r"legal: .*free_pci_device_allocations"):
        ended(state, main.owner_id, "unclaim", first.uuid)
    with pytest.raises(errors.IllegalTransition):
        ended(state, main.owner_id, "free", second.uuid)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("verb", ["unclaim", "free"])
def test_one_of_several_devices_is_given_back(verb: str, named: bool):
    state, main = built(device_host())
    state, claim = attached(state, main, "gpu", "vf")
    if verb == "free":
        state, claim = activated(state, claim)
    uuid = claim.uuid if named else None
    state = ended(state, main.owner_id, verb, uuid, [GPU_0])
    left = state.claims[claim.uuid]
    assert addresses(left) == [vf(0)]
    assert (left.state, left.expires_at) == (claim.state, claim.expires_at)
    assert set(state.units) == {(PCI, vf(0))}
    state, other = built(state, "gpu:2")
    assert addresses(other) == [GPU_0, GPU_1]
    with pytest.raises(errors.PciDevicesNotClaimed, match=f"^{GPU_0}: .* have {vf(0)}$"):
        ended(state, main.owner_id, verb, uuid, [GPU_0])
    state = ended(state, main.owner_id, verb, uuid, [vf(0)])
    assert claim.uuid not in state.claims


def test_history_names_the_devices_that_were_given_back():
    state, main = built(device_host())
    state, claim = attached(state, main, "gpu", "vf")
    decision = end(state, main.owner_id, "unclaim", claim.uuid, [GPU_0])
    (event,) = decision.change.events
    assert (event.action, event.reason) == ("unclaim_devices", f"gave back {GPU_0}")
    assert (addresses(event.before), addresses(event.after)) == ([GPU_0, vf(0)], [vf(0)])
    for named, reason in (([GPU_0, vf(0)], f"gave back {GPU_0}, {vf(0)}"), ([], "")):
        decision = end(state, main.owner_id, "unclaim", claim.uuid, named)
        (event,) = decision.change.events
        assert (event.action, event.reason) == ("unclaim", reason)


def test_end_of_an_unknown_claim_is_recorded():
    state, unseen = device_host(), uid()
    decision = end(state, uid(), "unclaim", unseen)
    assert [o.operation_id for o in decision.change.operations if o.ended] == [unseen]


def test_attach_claims_end_with_their_main_claim():
    state, main = built(device_host())
    state, first = attached(running(state, main), main, "gpu")
    state, _ = activated(state, first)
    state, second = attached(state, main, "vf")
    decision = claims.release_claim(state, call("release_claim"), NOON, main.uuid)
    events = [(e.after.uuid, e.action, e.reason) for e in decision.change.events]
    why = "the claim that it was added to has ended"
    released = [(claim.uuid, "release", why) for claim in (first, second)]
    assert events == [(main.uuid, "release", ""), *released]
    state = state.fold(decision.change)
    state.check()
    assert not state.claims and not state.units


def without_a_claim(*aliases, owner=None, **flavor):
    """A request for a guest without a claim here."""
    size = {"vcpus": 1, "memory_mb": 1024, **flavor}
    requests = tuple(PciRequest(count=1, alias_name=alias) for alias in aliases)
    instance = Instance(uuid=owner or uid(), flavor=Flavor(**size))
    return AttachRequest(instance=instance, pci_requests=requests)


def test_guest_without_a_claim_gets_devices_near_the_cells_that_are_named():
    required = {"extra_specs": {"hw:pci_numa_affinity_policy": "required"}}
    for cells, expected in (({0}, [GPU_0]), ({1}, [GPU_1]), (set(), [GPU_0])):
        asked = without_a_claim("gpu", **required)
        decision = attach.claim_pci_devices(device_host(), call(), NOON, asked, cells=cells)
        _, claim = after(device_host(), decision)
        assert (claim.kind, claim.state, claim.vcpus) == (ATTACH, BUILDING, 0)
        assert addresses(claim) == expected
    asked = without_a_claim("vf", **required)
    decision = attach.claim_pci_devices(device_host(), call(), NOON, asked, cells={1})
    assert isinstance(decision, Refused)


def test_devices_that_were_claimed_before_the_guest_end_with_it():
    owner, state = uid(7), device_host()
    for alias in ("gpu", "vf"):
        asked = without_a_claim(alias, owner=owner)
        decision = attach.claim_pci_devices(state, call(), NOON, asked, active=True, cells=())
        state, first = after(state, decision)
    assert len(ended(state, owner, "free", first.uuid).claims) == 1
    state, main = built(state, owner=owner)
    assert len(ended(state, owner, "free", first.uuid).claims) == 2
    state, third = attached(state, main, "vf")
    assert len(ended(state, owner, "unclaim", third.uuid).claims) == 3
    assert not released(state, main).claims


# -- quarantine -----------------------------------------------------------------------------------


def quarantined(state, address, reason):
    return state.fold(quarantine(state, call(), NOON, address, reason).change)


def one_time_gpus():
    """A host whose two GPUs may be used once."""
    gpus = record([gpu(GPU_0, 0), gpu(GPU_1, 1)], ONE_TIME[0].tags)
    return device_host(gpus, pci=policy(ONE_TIME))


def test_claim_keeps_a_device_that_is_quarantined():
    state, claim = built(device_host(), "gpu:1")
    state = quarantined(state, GPU_0, "faulty")
    assert device_allocations(state).state(GPU_0).owner_id == claim.owner_id
    state = released(state, claim)
    assert device_allocations(state).state(GPU_0).state == "unavailable"


def test_one_time_device_is_not_quarantined_while_a_domain_uses_it():
    state, claim = built(one_time_gpus(), "gpu:1")
    state = running(state, claim)
    state = audited(state, seen(state, domain(claim.owner_id, [GPU_0, GPU_1])))
    state = released(state, claim)
    assert state.devices[GPU_0].quarantine is None
    assert device_allocations(state).state(GPU_0).owner_id == claim.owner_id
    state = audited(state, seen(state))
    assert {each.quarantine for each in state.devices.values()} == {USED_ONCE}
