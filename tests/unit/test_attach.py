"""Devices that are added to a guest."""

from datetime import timedelta

import pytest

from rtagent import attach, claims
from rtagent.errors import (
    ClaimConflict,
    ClaimNotFound,
    IllegalTransition,
    InvalidPciRequest,
    NodeNotReady,
)
from rtagent.model.claim import ACTIVE, ATTACH, BUILDING
from rtagent.model.decision import Refused
from rtagent.model.host import restore
from rtagent.model.instance import InstanceUpdate
from tests.builders import NOON, call, host, uid
from tests.device_states import (
    addresses,
    after,
    attached,
    attaching,
    built,
    device_host,
    released,
    running,
)
from tests.pci_hosts import GPU_0, GPU_1, vf


def ended(state, owner, verb, claim_uuid=None):
    method = "free_pci_device_claims_for_instance"
    decision = attach.end(state, owner, claim_uuid, verb, call(method), NOON)
    new = state.fold(decision.change)
    new.check()
    return new


def activated(state, claim):
    asked = call("allocate_pci_devices_for_instance")
    return after(state, attach.activate(state, claim.owner_id, claim.uuid, asked, NOON))


def test_it_is_a_claim_of_its_own_that_counts_for_nothing_but_its_devices():
    state, main = built(device_host(), "gpu:1")
    usage = state.usage
    state, claim = attached(state, main, "gpu", "vf")
    assert (claim.kind, claim.state, claim.owner_id) == (ATTACH, BUILDING, main.owner_id)
    assert addresses(claim) == [GPU_1, vf(0)]
    assert claim.expires_at is not None
    assert state.usage == usage
    assert [each.uuid for each in state.claims_of(main.owner_id)] == [main.uuid, claim.uuid]


def test_what_the_owner_has_already_is_not_given_to_it_again():
    state, main = built(device_host(), "gpu:2")
    refused = attach.claim_devices(state, attaching(main, "gpu"), call(), NOON)
    assert isinstance(refused, Refused)
    assert [(r.resource, r.available) for r in refused.reasons] == [("PCI gpu", 0)]


def test_devices_are_near_to_where_the_guest_is():
    pinned = {"hw:cpu_policy": "dedicated", "hw:pci_numa_affinity_policy": "required"}
    state, main = built(device_host(), "vf:1", extra_specs=pinned)
    state, _ = attached(state, main, "gpu")
    refused = attach.claim_devices(state, attaching(main, "gpu"), call(), NOON)
    assert "cells 0" in str(refused)


def test_an_instance_without_a_claim_here_gets_none():
    _, main = built(device_host())
    with pytest.raises(ClaimNotFound, match=f"^instance {main.owner_id} has no claim here$"):
        attach.claim_devices(device_host(), attaching(main, "gpu"), call(), NOON)


def test_a_uuid_that_is_taken_is_a_conflict():
    state, main = built(device_host())
    with pytest.raises(ClaimConflict):
        attach.claim_devices(state, attaching(main, "gpu", uuid=main.uuid), call(), NOON)


def test_a_host_that_was_never_seen_gives_none():
    _, main = built(device_host())
    with pytest.raises(NodeNotReady):
        attach.claim_devices(host(None), attaching(main, "gpu"), call(), NOON)


def test_a_request_that_means_nothing_is_named():
    state, main = built(device_host())
    with pytest.raises(InvalidPciRequest, match="names no such device"):
        attach.claim_devices(state, attaching(main, "nothing"), call(), NOON)


def test_a_second_build_names_the_main_claim():
    state, main = built(device_host())
    state, _ = attached(state, main, "vf")
    with pytest.raises(ClaimConflict, match=main.uuid):
        built(state, owner=main.owner_id)


def test_its_life():
    state, main = built(device_host())
    state, claim = attached(state, main, "gpu")
    state, active = activated(state, claim)
    assert (active.state, active.expires_at) == (ACTIVE, None)
    state, again = activated(state, claim)
    assert again.state == ACTIVE
    state = ended(state, main.owner_id, "free")
    assert [each.uuid for each in state.claims_of(main.owner_id)] == [main.uuid]
    assert not state.units


def test_what_is_claimed_and_what_is_allocated_end_apart():
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


def test_none_to_end_is_no_error():
    state, main = built(device_host())
    assert ended(state, main.owner_id, "free").claims == state.claims
    assert ended(state, uid(), "unclaim").claims == state.claims


def test_an_id_never_seen_is_recorded_as_ended():
    state, unseen = device_host(), uid()
    decision = attach.end(state, uid(), unseen, "unclaim", call("unclaim_pci_devices"), NOON)
    assert [o.operation_id for o in decision.change.operations if o.ended] == [unseen]


@pytest.mark.parametrize("verb", ["unclaim", "free"])
def test_another_claim_is_not_ended_by_it(verb: str):
    state, main = built(device_host())
    state, claim = attached(state, main, "gpu")
    for owner, uuid in ((main.owner_id, main.uuid), (uid(), claim.uuid)):
        with pytest.raises(ClaimNotFound):
            ended(state, owner, verb, uuid)
    with pytest.raises(ClaimNotFound):
        attach.activate(state, main.owner_id, main.uuid, call(), NOON)
    with pytest.raises(ClaimNotFound):
        attach.activate(state, uid(), claim.uuid, call(), NOON)


def test_it_ends_with_the_claim_that_it_was_added_to():
    state, main = built(device_host())
    state, first = attached(running(state, main), main, "gpu")
    state, _ = activated(state, first)
    state, second = attached(state, main, "vf")
    decision = claims.end(state, main.uuid, "release", call("release_claim"), NOON)
    told = [(e.after.uuid, e.action, e.reason) for e in decision.change.events]
    why = "the claim that it was added to has ended"
    assert told == [
        (main.uuid, "release", ""),
        (first.uuid, "release", why),
        (second.uuid, "release", why),
    ]
    state = state.fold(decision.change)
    state.check()
    assert not state.claims and not state.units


@pytest.mark.parametrize("minutes", [0, -10])
def test_which_was_first_is_known_after_a_restart_too(minutes: int):
    """Even if the clock had been set back in between."""
    state, main = built(device_host())
    later = NOON + timedelta(minutes=minutes)
    for number in (1, 2):  # with uuids before and after the main claim's
        asked = attaching(main, "vf", uuid=uid(number))
        state, _ = after(state, attach.claim_devices(state, asked, call(), later))
    state = restore(state, state.claims.values(), (), state.revision)
    state = ended(state, main.owner_id, "unclaim", uid(2))
    assert [claim.uuid for claim in state.claims_of(main.owner_id)] == [main.uuid, uid(1)]
    assert not released(state, main).claims


def test_a_deleted_instance_leaves_none():
    state, main = built(device_host())
    state, _ = attached(state, main, "gpu")
    news = InstanceUpdate(uuid=main.owner_id, vm_state="deleted")
    state = state.fold(claims.update(state, news, call("update_usage"), NOON).change)
    state.check()
    assert not state.claims


def test_an_instance_is_counted_once():
    state, main = built(device_host())
    counters = state.counters
    state, _ = attached(state, main, "gpu")
    assert state.counters == counters
    assert dict(counters)["num_instances"] == 1
    assert not released(state, main).counters


def test_others_keep_theirs():
    state, main = built(device_host())
    state, other = built(state)
    state, claim = attached(state, other, "gpu")
    assert claim.uuid in released(state, main).claims
    assert addresses(claim) == [GPU_0]
