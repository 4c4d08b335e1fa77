"""The rules of claims: build, activate, renew, end, update, and the records that they make."""

from datetime import timedelta

import pytest

from rtagent import claims
from rtagent.errors import ClaimConflict, IllegalTransition, NodeNotReady
from rtagent.lifecycle.transitions import transition
from rtagent.model.assignment import AssignedQuantity
from rtagent.model.claim import ACTIVE, BUILDING, RELEASED
from rtagent.model.decision import Granted, Refused
from rtagent.model.mem_encryption import AMD_SEV_ES, MemEncryption, pool
from rtagent.model.request import InstanceUpdate
from tests.support.hosts import NOON, call, host, request, uid


def built(state, build, asked=None):
    granted = claims.instance_claim(state, asked or call(), NOON, build)
    assert isinstance(granted, Granted)
    return state.fold(granted.change), granted.claims[0]


def updated(state, owner, vm_state):
    facts = InstanceUpdate(uuid=owner, vm_state=vm_state)
    return state.fold(claims.update_usage(state, call("update_usage"), NOON, facts).change)


def test_build_makes_a_leased_building_claim():
    build, asked = request(2, 2048, 10, ephemeral_gb=1, swap=512), call()
    state, claim = built(host(), build, asked)
    assert (claim.state, claim.uuid) == (BUILDING, asked.operation_id)
    assert (claim.vcpus, claim.memory_mb, claim.disk_mb) == (2, 2048, 11 * 1024 + 512)
    assert claim.expires_at == NOON + timedelta(seconds=300)
    assert claim.revision == state.revision == 1
    assert state.claims_of(build.instance.uuid) == (claim,)


def test_root_disk_of_a_volume_backed_instance_uses_no_host_disk():
    build = request(1, 1, 50, instance={"is_volume_backed": True}, swap=3)
    assert built(host(), build)[1].disk_mb == 3


def test_build_is_refused_on_a_host_that_was_never_observed():
    with pytest.raises(NodeNotReady):
        claims.instance_claim(host(None), call(), NOON, request())


def test_second_build_of_an_owner_is_a_conflict():
    state, claim = built(host(), request(owner=uid(7)))
    with pytest.raises(ClaimConflict, match=claim.uuid):
        claims.instance_claim(state, call(), NOON, request(owner=uid(7)))


def test_uuid_of_a_live_claim_is_not_given_to_another_instance():
    state, claim = built(host(), request())
    with pytest.raises(ClaimConflict, match="another instance's"):
        claims.instance_claim(state, call(operation_id=claim.uuid), NOON, request())


def test_activation_ends_the_lease_and_can_be_repeated():
    state, claim = built(host(), request())
    first = claims.activate_claim(state, call("activate_claim"), NOON, claim.uuid)
    assert (first.claims[0].state, first.claims[0].expires_at) == (ACTIVE, None)
    state = state.fold(first.change)
    again = claims.activate_claim(state, call("activate_claim"), NOON, claim.uuid)
    assert again.claims[0].state == ACTIVE


def test_renewal_begins_a_new_lease_of_a_building_claim_only():
    state, claim = built(host(), request())
    later = NOON + timedelta(seconds=100)
    renewed = claims.renew_claim(state, call("renew_claim"), later, claim.uuid)
    assert renewed.claims[0].expires_at == later + timedelta(seconds=300)
    active = claims.activate_claim(state, call("activate_claim"), NOON, claim.uuid)
    again = claims.renew_claim(state.fold(active.change), call("renew_claim"), later, claim.uuid)
    assert again.claims[0].expires_at is None


@pytest.mark.parametrize("rule", [claims.abort_instance_claim, claims.release_claim])
def test_ending_a_claim_frees_everything_that_it_held(rule):
    empty = host()
    state, claim = built(empty, request(3, 300, 3))
    ended = rule(state, call(), NOON, claim.uuid)
    after = state.fold(ended.change)
    assert ended.claims[0].state == RELEASED
    assert (after.usage, after.counters) == (empty.usage, empty.counters)
    assert not after.claims
    after.check()


@pytest.mark.parametrize("vm_state", ["deleted", "shelved_offloaded"])
def test_update_of_a_deleted_instance_releases_its_claims(vm_state):
    state, claim = built(host(), request())
    assert not updated(state, claim.owner_id, vm_state).claims


@pytest.mark.parametrize("vm_state", ["soft-delete", "stopped", "suspended", "rescued", "error"])
def test_update_of_an_instance_that_may_run_again_keeps_its_claims(vm_state):
    state, claim = built(host(), request(instance={"project_id": "p", "vm_state": "building"}))
    after = updated(state, claim.owner_id, vm_state)
    assert after.usage == state.usage
    assert after.counters[f"num_vm_{vm_state}"] == 1
    assert "num_vm_building" not in after.counters
    assert after.counters["num_proj_p"] == 1, "facts that the update leaves out stay"


def test_refusal_names_every_reason_nearest_miss_first():
    refused = claims.instance_claim(host(), call(), NOON, request(9, 16385, 300))
    assert isinstance(refused, Refused)
    assert [r.resource for r in refused.reasons] == ["MEMORY_MB", "VCPU", "DISK_GB"]


def test_active_build_has_no_lease():
    granted = claims.instance_claim(host(), call(), NOON, request(), active=True)
    (claim,) = granted.claims
    assert (claim.state, claim.expires_at) == (ACTIVE, None)
    host().fold(granted.change).check()


def test_guest_with_a_context_that_another_service_has_chosen_is_encrypted_by_its_model():
    suffix, name = pool(AMD_SEV_ES)
    context = AssignedQuantity(provider=uid(5), suffix=suffix, resource_class=name, quantity=1)
    granted = claims.instance_claim(host(), call(), NOON, request(), quantities=[context])
    assert granted.claims[0].mem_encryption == MemEncryption(model=AMD_SEV_ES)
    assert host().fold(granted.change).usage.quantities == {pool(AMD_SEV_ES): 1}


def test_illegal_transition_names_the_state_and_the_legal_methods():
    state, claim = built(host(), request())
    active = transition(claim, "activate", state, NOON)
    with pytest.raises(IllegalTransition) as caught:
        transition(active, "expire", state, NOON)
    assert "is active" in caught.value.message
    assert "(legal: abort_instance_claim, activate_claim, drop_move_claim, " in caught.value.message
    assert "expire" not in caught.value.kwargs["legal"]
    assert "pci_devices" not in caught.value.kwargs["legal"]


def test_only_a_claim_whose_lease_runs_is_aborted_because_its_caller_does_not_get_it():
    state, claim = built(host(), request())
    ended = claims.abort_leased_claim(state, call(), NOON, claim.uuid)
    assert not state.fold(ended.change).claims
    active = state.fold(claims.activate_claim(state, call(), NOON, claim.uuid).change)
    kept = claims.abort_leased_claim(active, call(), NOON, claim.uuid)
    assert active.fold(kept.change).claims == active.claims
