"""The rules of claims: states, verbs, leases, operation records."""

from datetime import timedelta

import pytest

from rtagent import claims
from rtagent.errors import ClaimConflict, ClaimNotFound, IllegalTransition, NodeNotReady
from rtagent.model.claim import ACTIVE, BUILDING, RELEASED
from rtagent.model.decision import Granted, Refused
from rtagent.model.instance import InstanceUpdate
from rtagent.transitions import LIFE_CYCLE, moved
from tests.builders import NOON, call, host, request, uid


def built(state, asked):
    granted = claims.build(state, asked, call(operation_id=asked.claim_uuid), NOON)
    assert isinstance(granted, Granted)
    return state.fold(granted.change), granted.claims[0]


def test_a_build_makes_a_leased_building_claim():
    asked = request(2, 2048, 10, ephemeral_gb=1, swap=512)
    state, claim = built(host(), asked)
    assert (claim.state, claim.uuid) == (BUILDING, asked.claim_uuid)
    assert (claim.vcpus, claim.memory_mb, claim.disk_mb) == (2, 2048, 11 * 1024 + 512)
    assert claim.expires_at == NOON + timedelta(seconds=300)
    assert claim.revision == state.revision == 1
    assert state.claims_of(asked.instance.uuid) == (claim,)


def test_the_root_disk_of_a_volume_is_not_the_hosts():
    asked = request(1, 1, 50, instance={"is_volume_backed": True}, swap=3)
    assert built(host(), asked)[1].disk_mb == 3


def test_nothing_is_granted_on_a_host_that_was_never_seen():
    with pytest.raises(NodeNotReady):
        claims.build(host(None), request(), call(), NOON)


def test_one_owner_has_one_claim():
    state, claim = built(host(), request(owner=uid(7)))
    with pytest.raises(ClaimConflict, match=claim.uuid):
        claims.build(state, request(owner=uid(7)), call(), NOON)


def test_a_claims_uuid_is_never_given_to_another_instance():
    state, claim = built(host(), request())
    with pytest.raises(ClaimConflict, match="another instance's"):
        claims.build(state, request(claim=claim.uuid), call(), NOON)


@pytest.mark.parametrize("verb", ["activate", "renew"])
def test_verbs_of_an_unknown_claim_are_refused(verb):
    with pytest.raises(ClaimNotFound):
        getattr(claims, verb)(host(), uid(), call(verb), NOON)


def test_activation_ends_the_lease_and_is_repeatable():
    state, claim = built(host(), request())
    first = claims.activate(state, claim.uuid, call("activate_claim"), NOON)
    assert (first.claims[0].state, first.claims[0].expires_at) == (ACTIVE, None)
    state = state.fold(first.change)
    again = claims.activate(state, claim.uuid, call("activate_claim"), NOON)
    assert again.claims[0].state == ACTIVE


def test_renewal_begins_a_new_lease_of_a_building_claim_only():
    state, claim = built(host(), request())
    later = NOON + timedelta(seconds=100)
    renewed = claims.renew(state, claim.uuid, call("renew_claim"), later)
    assert renewed.claims[0].expires_at == later + timedelta(seconds=300)
    active = claims.activate(state, claim.uuid, call("activate_claim"), NOON)
    state = state.fold(active.change)
    assert claims.renew(state, claim.uuid, call("renew_claim"), later).claims[0].expires_at is None


@pytest.mark.parametrize("verb", ["abort", "release"])
def test_an_end_gives_all_back(verb):
    empty = host()
    state, claim = built(empty, request(3, 300, 3))
    ended = claims.end(state, claim.uuid, verb, call(verb), NOON)
    after = state.fold(ended.change)
    assert ended.claims[0].state == RELEASED
    assert (after.usage, after.claims, after.counters) == (
        empty.usage,
        empty.claims,
        empty.counters,
    )
    after.check()


def test_an_end_of_an_unseen_claim_is_recorded_so_that_its_creation_is_refused():
    unseen = uid()
    ended = claims.end(host(), unseen, "abort", call("abort_instance_claim"), NOON)
    assert [op.operation_id for op in ended.change.operations if op.ended] == [unseen]


def test_every_granted_call_records_its_operation_and_each_claim_its_event():
    asked = request()
    made = claims.build(host(), asked, call(operation_id=asked.claim_uuid), NOON)
    (operation,) = made.change.operations
    assert (operation.operation_id, operation.claim_uuid) == (asked.claim_uuid, asked.claim_uuid)
    (event,) = made.change.events
    assert (event.before, event.after, event.action) == (None, made.claims[0], "create")


@pytest.mark.parametrize("vm_state", ["deleted", "shelved_offloaded"])
def test_an_instance_that_is_gone_holds_nothing(vm_state):
    state, claim = built(host(), request())
    news = InstanceUpdate(uuid=claim.owner_id, vm_state=vm_state)
    after = state.fold(claims.update(state, news, call("update_usage"), NOON).change)
    assert not after.claims


@pytest.mark.parametrize("vm_state", ["soft-delete", "stopped", "suspended", "rescued", "error"])
def test_an_instance_that_may_come_back_keeps_all(vm_state):
    state, claim = built(host(), request(instance={"project_id": "p", "vm_state": "building"}))
    news = InstanceUpdate(uuid=claim.owner_id, vm_state=vm_state)
    after = state.fold(claims.update(state, news, call("update_usage"), NOON).change)
    assert after.usage == state.usage
    assert after.counters[f"num_vm_{vm_state}"] == 1
    assert "num_vm_building" not in after.counters
    assert after.counters["num_proj_p"] == 1, "what an update leaves out stays"


def test_an_update_of_a_stranger_changes_no_claim():
    state, _ = built(host(), request())
    news = InstanceUpdate(uuid=uid(), vm_state="deleted")
    after = state.fold(claims.update(state, news, call("update_usage"), NOON).change)
    assert after.claims == state.claims


def test_failed_builds_are_counted_in_a_row():
    state = host()
    for expected in (1, 2):
        state = state.fold(claims.count_build(state, False, call("build_failed"), NOON).change)
        assert state.failed_builds == expected
    state = state.fold(claims.count_build(state, True, call("build_succeeded"), NOON).change)
    assert state.failed_builds == 0


def test_an_illegal_verb_names_the_state_and_what_is_legal_there():
    state, claim = built(host(), request())
    active = claims.activate(state, claim.uuid, call("activate_claim"), NOON).claims[0]
    with pytest.raises(IllegalTransition) as caught:
        moved(active, "expire", state, NOON)
    assert "is active" in caught.value.message
    assert "(legal: abort_instance_claim, activate_claim, drop_move_claim, " in caught.value.message
    assert "expire" not in caught.value.kwargs["legal"]
    assert "pci_devices" not in caught.value.kwargs["legal"]


@pytest.mark.parametrize("verb", sorted(LIFE_CYCLE))
def test_no_verb_brings_a_released_claim_back(verb):
    state, claim = built(host(), request())
    ended = claims.end(state, claim.uuid, "release", call("release_claim"), NOON).claims[0]
    with pytest.raises(IllegalTransition):
        moved(ended, verb, state, NOON)


def test_a_refusal_changes_nothing_and_names_every_reason_nearest_miss_first():
    refused = claims.build(host(), request(9, 16385, 300), call(), NOON)
    assert isinstance(refused, Refused)
    assert [r.resource for r in refused.reasons] == ["MEMORY_MB", "VCPU", "DISK_GB"]
