"""Attach claims: devices that are added to a guest, and removed from it."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.db.checked_rows import LONG_AGO
from rtagent.errors import (
    ClaimConflict,
    ClaimNotFound,
    IllegalTransition,
    InvalidPciRequest,
    NodeNotReady,
    PciDevicesNotClaimed,
)
from rtagent.lifecycle import attach
from rtagent.model.claim import ACTIVE, ATTACH, BUILDING, DAMAGED, PCI
from rtagent.model.decision import Refused
from rtagent.model.device import PciDevices
from rtagent.model.node_state import restore
from rtagent.model.request import AttachRequest, Flavor, Instance, InstanceUpdate, PciRequest
from tests.support.device_states import (
    ONE_TIME,
    addresses,
    after,
    attached,
    attaching,
    built,
    device_host,
    policy,
    released,
    running,
)
from tests.support.hosts import NOON, call, host, stored, uid
from tests.support.pci_hosts import GPU_0, GPU_1, SPECS, vf


def ended(state, owner, verb, claim_uuid=None, devices=()):
    method = "free_pci_device_claims_for_instance"
    decision = attach.end_pci_claims(state, call(method), NOON, owner, claim_uuid, verb, devices)
    new = state.fold(decision.change)
    new.check()
    return new


def activated(state, claim):
    asked = call("allocate_pci_devices_for_instance")
    return after(state, attach.allocate_pci_devices(state, asked, NOON, claim.owner_id, claim.uuid))


def test_attach_claim_uses_its_devices_and_nothing_else():
    state, main = built(device_host(), "gpu:1")
    usage = state.usage
    state, claim = attached(state, main, "gpu", "vf")
    assert (claim.kind, claim.state, claim.owner_id) == (ATTACH, BUILDING, main.owner_id)
    assert addresses(claim) == [GPU_1, vf(0)]
    assert claim.expires_at is not None
    assert state.usage == usage
    assert [each.uuid for each in state.claims_of(main.owner_id)] == [main.uuid, claim.uuid]


def test_devices_of_the_owner_are_not_assigned_again():
    state, main = built(device_host(), "gpu:2")
    refused = attach.claim_pci_devices(state, call(), NOON, attaching(main, "gpu"))
    assert isinstance(refused, Refused)
    assert [(r.resource, r.available) for r in refused.reasons] == [("PCI gpu", 0)]


def test_devices_follow_the_guests_numa_affinity_policy():
    pinned = {"hw:cpu_policy": "dedicated", "hw:pci_numa_affinity_policy": "required"}
    state, main = built(device_host(), "vf:1", extra_specs=pinned)
    state, _ = attached(state, main, "gpu")
    refused = attach.claim_pci_devices(state, call(), NOON, attaching(main, "gpu"))
    assert "cells 0" in str(refused)


def test_instance_without_a_claim_here_is_not_found():
    _, main = built(device_host())
    with pytest.raises(ClaimNotFound, match=f"^instance {main.owner_id} has no claim here$"):
        attach.claim_pci_devices(device_host(), call(), NOON, attaching(main, "gpu"))


def test_uuid_of_another_claim_is_a_conflict():
    state, main = built(device_host())
    with pytest.raises(ClaimConflict):
        attach.claim_pci_devices(state, call(operation_id=main.uuid), NOON, attaching(main, "gpu"))


def test_attach_is_refused_on_a_host_that_was_never_observed():
    _, main = built(device_host())
    with pytest.raises(NodeNotReady):
        attach.claim_pci_devices(host(None), call(), NOON, attaching(main, "gpu"))


def test_request_with_an_unknown_alias_is_an_error_that_names_it():
    state, main = built(device_host())
    with pytest.raises(InvalidPciRequest, match="does not define it"):
        attach.claim_pci_devices(state, call(), NOON, attaching(main, "nothing"))


def test_conflict_of_a_second_build_names_the_main_claim():
    state, main = built(device_host())
    state, _ = attached(state, main, "vf")
    with pytest.raises(ClaimConflict, match=main.uuid):
        built(state, owner=main.owner_id)


def test_attach_claim_is_activated_and_freed():
    state, main = built(device_host())
    state, claim = attached(state, main, "gpu")
    state, active = activated(state, claim)
    assert (active.state, active.expires_at) == (ACTIVE, None)
    state, again = activated(state, claim)
    assert again.state == ACTIVE
    state = ended(state, main.owner_id, "free")
    assert [each.uuid for each in state.claims_of(main.owner_id)] == [main.uuid]
    assert not state.units


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
    with pytest.raises(IllegalTransition, match=r"legal: .*free_pci_device_allocations"):
        ended(state, main.owner_id, "unclaim", first.uuid)
    with pytest.raises(IllegalTransition):
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
    with pytest.raises(PciDevicesNotClaimed, match=f"^{GPU_0}: .* have {vf(0)}$"):
        ended(state, main.owner_id, verb, uuid, [GPU_0])
    state = ended(state, main.owner_id, verb, uuid, [vf(0)])
    assert claim.uuid not in state.claims


def test_history_names_the_devices_that_were_given_back():
    state, main = built(device_host())
    state, claim = attached(state, main, "gpu", "vf")
    decision = attach.end_pci_claims(
        state, call(), NOON, main.owner_id, claim.uuid, "unclaim", [GPU_0]
    )
    (event,) = decision.change.events
    assert (event.action, event.reason) == ("unclaim_devices", f"gave back {GPU_0}")
    assert (addresses(event.before), addresses(event.after)) == ([GPU_0, vf(0)], [vf(0)])


def test_devices_of_several_attach_claims_are_given_back_in_one_call():
    state, main = built(device_host())
    state, first = attached(state, main, "gpu", "vf")
    state, second = attached(state, main, "gpu")
    state, third = attached(state, main, "vf")
    state = ended(state, main.owner_id, "unclaim", None, [vf(0), GPU_1])
    assert set(state.claims) == {main.uuid, first.uuid, third.uuid}
    assert addresses(state.claims[first.uuid]) == [GPU_0]
    assert second.uuid not in state.claims


def test_devices_that_no_such_claim_has_are_refused_by_address():
    state, main = built(device_host(), "gpu:1")
    state, claim = attached(state, main, "vf")
    state, _ = activated(state, claim)
    for uuid, verb, wrong in (
        (claim.uuid, "free", [GPU_0]),  # the main claim's
        (None, "free", [vf(0), GPU_1, "0000:ff:00.0"]),
        (None, "unclaim", [vf(0)]),  # of an active claim
    ):
        with pytest.raises(PciDevicesNotClaimed) as refused:
            ended(state, main.owner_id, verb, uuid, wrong)
        unknown = sorted({*wrong} - {vf(0)} if verb == "free" else wrong)
        assert refused.value.kwargs["devices"] == unknown
    with pytest.raises(IllegalTransition, match="free_pci_device_allocations_for_instance"):
        ended(state, main.owner_id, "unclaim", claim.uuid, [vf(0)])


def test_device_for_one_use_is_quarantined_when_it_alone_is_given_back():
    state = device_host(pci=policy(ONE_TIME + SPECS))
    tagged = {
        address: replace(each, tags=replace(each.tags, one_time_use=address == GPU_0))
        for address, each in state.devices.items()
    }
    state, main = built(replace(state, devices=PciDevices(tagged)))
    state, claim = attached(state, main, "gpu", "vf")
    state = ended(state, main.owner_id, "unclaim", claim.uuid, [GPU_0])
    assert state.devices[GPU_0].quarantine
    assert state.devices[vf(0)].quarantine is None


def test_ending_no_claims_is_not_an_error():
    state, main = built(device_host())
    assert ended(state, main.owner_id, "free").claims == state.claims
    assert ended(state, uid(), "unclaim").claims == state.claims


def test_end_of_an_unknown_claim_is_recorded():
    state, unseen = device_host(), uid()
    decision = attach.end_pci_claims(
        state, call("unclaim_pci_devices"), NOON, uid(), unseen, "unclaim"
    )
    assert [o.operation_id for o in decision.change.operations if o.ended] == [unseen]


@pytest.mark.parametrize("verb", ["unclaim", "free"])
def test_other_claims_are_not_found_by_the_verbs_of_attach_claims(verb: str):
    state, main = built(device_host())
    state, claim = attached(state, main, "gpu")
    for owner, uuid in ((main.owner_id, main.uuid), (uid(), claim.uuid)):
        with pytest.raises(ClaimNotFound):
            ended(state, owner, verb, uuid)
    with pytest.raises(ClaimNotFound):
        attach.allocate_pci_devices(state, call(), NOON, main.owner_id, main.uuid)
    with pytest.raises(ClaimNotFound):
        attach.allocate_pci_devices(state, call(), NOON, uid(), claim.uuid)


def test_attach_claims_end_with_their_main_claim():
    state, main = built(device_host())
    state, first = attached(running(state, main), main, "gpu")
    state, _ = activated(state, first)
    state, second = attached(state, main, "vf")
    decision = claims.release_claim(state, call("release_claim"), NOON, main.uuid)
    events = [(e.after.uuid, e.action, e.reason) for e in decision.change.events]
    why = "the claim that it was added to has ended"
    assert events == [
        (main.uuid, "release", ""),
        (first.uuid, "release", why),
        (second.uuid, "release", why),
    ]
    state = state.fold(decision.change)
    state.check()
    assert not state.claims and not state.units


def test_damaged_attach_claim_ends_with_the_main_claim_only():
    """Its place in the order of the owner's claims is unknown."""
    state, main = built(device_host())
    state, first = attached(state, main, "gpu")
    state, second = attached(state, main, "vf")
    unknown = {"suspect": f"{DAMAGED}created_at", "created_at": LONG_AGO, "revision": 0}
    kept = [c for c in stored(state).claims if c.uuid != first.uuid]
    damaged = replace(stored(state), claims=(replace(first, **unknown), *kept))
    state = restore(damaged, state.policy)
    state = ended(state, main.owner_id, "unclaim", second.uuid)
    assert set(state.claims) == {main.uuid, first.uuid}
    assert not released(state, main).claims


@pytest.mark.parametrize("minutes", [0, -10])
def test_order_of_claims_survives_a_restart(minutes: int):
    """The clock may have been set back in between."""
    state, main = built(device_host())
    later = NOON + timedelta(minutes=minutes)
    for number in (1, 2):  # with uuids before and after the main claim's
        asked = call(operation_id=uid(number))
        state, _ = after(
            state, attach.claim_pci_devices(state, asked, later, attaching(main, "vf"))
        )
    state = restore(stored(state), state.policy)
    state = ended(state, main.owner_id, "unclaim", uid(2))
    assert [claim.uuid for claim in state.claims_of(main.owner_id)] == [main.uuid, uid(1)]
    assert not released(state, main).claims


def test_deletion_of_the_instance_ends_its_attach_claims():
    state, main = built(device_host())
    state, _ = attached(state, main, "gpu")
    update = InstanceUpdate(uuid=main.owner_id, vm_state="deleted")
    state = state.fold(claims.update_usage(state, call("update_usage"), NOON, update).change)
    state.check()
    assert not state.claims


def test_instance_with_attach_claims_is_counted_once():
    state, main = built(device_host())
    counters = state.counters
    state, _ = attached(state, main, "gpu")
    assert state.counters == counters
    assert dict(counters)["num_instances"] == 1
    assert not released(state, main).counters


def without_a_claim(*aliases, owner=None, **flavor):
    """A request for a guest without a claim here."""
    size = {"vcpus": 1, "memory_mb": 1024, **flavor}
    return AttachRequest(
        instance=Instance(uuid=owner or uid(), flavor=Flavor(**size)),
        pci_requests=tuple(PciRequest(count=1, alias_name=alias) for alias in aliases),
    )


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


def test_cells_that_are_named_take_precedence_over_those_of_the_claim():
    pinned = {"hw:cpu_policy": "dedicated", "hw:pci_numa_affinity_policy": "required"}
    state, main = built(device_host(), extra_specs=pinned)
    asked = attaching(main, "gpu")
    _, claim = after(state, attach.claim_pci_devices(state, call(), NOON, asked, cells={1}))
    assert addresses(claim) == [GPU_1]


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
