"""Contexts for the encryption of memory: counted, refused with numbers, freed."""

import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.errors import AllocationMismatch, PropertyConflict
from rtagent.lifecycle.moves.destination import move_claim
from rtagent.model.claim import EVACUATION, LIVE_MIGRATION
from rtagent.model.decision import Granted, Refused
from rtagent.model.mem_encryption import AMD_SEV, AMD_SEV_ES, MemEncryption, pool
from rtagent.model.migration import MoveRequest
from rtagent.model.request import Allocation, Flavor
from rtagent.reconcile.drift import absent, drifts
from tests.support.device_states import (
    SEV,
    SEV_ES,
    after,
    audited,
    encrypted,
    orphan,
    provider_of,
    released,
    running,
    seen,
    sev_host,
)
from tests.support.hosts import NODE, NOON, call, host, request, with_claims


def built(state, model=None, **arguments):
    return after(state, claims.instance_claim(state, call(), NOON, encrypted(model, **arguments)))


def refused(state, model=None):
    answer = claims.instance_claim(state, call(), NOON, encrypted(model))
    assert isinstance(answer, Refused)
    return [(r.code, r.where, r.requested, r.available) for r in answer.reasons]


def test_a_guest_takes_one_context_of_its_model():
    state, claim = built(sev_host())
    assert claim.mem_encryption == MemEncryption(model=AMD_SEV, cbitpos=51, reduced_phys_bits=1)
    (context,) = claim.quantities
    assert (context.suffix, context.resource_class) == ("amd_sev", "MEM_ENCRYPTION_CONTEXT")
    assert (context.provider, context.quantity) == (provider_of(AMD_SEV), 1)
    state, other = built(state, AMD_SEV_ES)
    assert state.usage.quantities == {pool(AMD_SEV): 1, pool(AMD_SEV_ES): 1}
    assert refused(state, AMD_SEV_ES) == [("insufficient", f"{NODE_NAME}_amd_sev_es", 1, 0)]
    state, _ = built(state)
    assert refused(state) == [("insufficient", f"{NODE_NAME}_amd_sev", 1, 0)]
    state = released(state, other)
    assert not state.usage.quantities.get(pool(AMD_SEV_ES))
    built(state, AMD_SEV_ES)


NODE_NAME = NODE.hypervisor_hostname


@pytest.mark.parametrize("model", [AMD_SEV, AMD_SEV_ES])
def test_a_host_without_encryption_refuses_it_by_name(model):
    where = f"{NODE_NAME}_{model.replace('-', '_')}"
    assert refused(host(), model) == [("not_offered", where, 1, 0)]
    answer = claims.instance_claim(host(), call(), NOON, encrypted(model))
    assert "MEM_ENCRYPTION_CONTEXT: 1 contexts requested" in str(answer)


def test_the_operator_lowers_the_number_of_contexts():
    state, _ = built(sev_host(max_sev_guests=1))
    assert refused(state) == [("insufficient", f"{NODE_NAME}_amd_sev", 1, 0)]
    built(state, AMD_SEV_ES)  # has a number of its own
    assert refused(sev_host(max_sev_guests=0)) == [("not_offered", f"{NODE_NAME}_amd_sev", 1, 0)]


def test_an_older_libvirt_needs_the_operators_number():
    unknown = replace(SEV, contexts=None)
    assert refused(sev_host(unknown)) == [("not_offered", f"{NODE_NAME}_amd_sev", 1, 0)]
    state, _ = built(sev_host(unknown, max_sev_guests=1))
    assert refused(state)[0][0] == "insufficient"


def test_domains_without_a_claim_count():
    state = with_claims(sev_host(), (), (orphan(), orphan()))
    assert refused(state) == [("insufficient", f"{NODE_NAME}_amd_sev", 1, 0)]
    adopted = next(iter(state.domain_usages))
    state, _ = built(state, owner=adopted)
    assert state.usage.quantities[pool(AMD_SEV)] == 2


def test_a_claim_and_its_domain_count_once_and_another_encryption_is_drift():
    state, claim = built(sev_host())
    state = running(state, claim)
    plain = replace(orphan(), domain_uuid=claim.owner_id, vcpus=1, memory_mb=1024)
    state = with_claims(state, state.claims.values(), (plain,), state.revision)
    assert state.usage.quantities == {pool(AMD_SEV): 1}
    assert drifts(state) == ()
    other = replace(plain, occupancy=replace(plain.occupancy, mem_encryption=AMD_SEV_ES))
    state = with_claims(state, state.claims.values(), (other,), state.revision)
    assert state.usage.quantities == {pool(AMD_SEV): 1, pool(AMD_SEV_ES): 1}
    assert {each.resource: (each.claimed, each.observed) for each in drifts(state)} == {
        "MEM_ENCRYPTION_CONTEXT amd-sev": (1, 0),
        "MEM_ENCRYPTION_CONTEXT amd-sev-es": (0, 1),
    }


def test_encryption_that_the_host_lost_stays_claimed_and_is_reported():
    state, claim = built(sev_host())
    state = replace(state, topology=replace(state.topology, mem_encryption=(SEV_ES,)))
    (lost,) = absent(state)
    assert (lost.claim_uuid, lost.resource) == (claim.uuid, "MEM_ENCRYPTION_CONTEXT amd-sev")
    assert state.claims[claim.uuid].mem_encryption == claim.mem_encryption


def moved(state, kind):
    build = encrypted()
    move = MoveRequest(build=build, migration=kind, old_flavor=Flavor(vcpus=1, memory_mb=64))
    return move_claim(state, call("rebuild_claim"), NOON, move)


def test_a_guest_with_encrypted_memory_moves_only_while_it_is_off():
    answer = moved(sev_host(), EVACUATION)
    assert isinstance(answer, Granted) and answer.claims[0].mem_encryption.model == AMD_SEV
    with pytest.raises(PropertyConflict, match="cannot be migrated while it runs"):
        moved(sev_host(), LIVE_MIGRATION)


def allocated(**parts: dict[str, int]) -> dict[str, Allocation]:
    quantities = {"VCPU": 1, "MEMORY_MB": 1024}
    root = {NODE.uuid: Allocation(resources=quantities)}
    return root | {uuid: Allocation(resources=each) for uuid, each in parts.items()}


def test_a_claim_follows_the_allocation_of_its_context():
    one = {"MEM_ENCRYPTION_CONTEXT": 1}
    right = allocated(**{provider_of(AMD_SEV): one})
    state, claim = after(
        sev_host(),
        claims.instance_claim(sev_host(), call(), NOON, replace(encrypted(), allocations=right)),
    )
    assert claim.mem_encryption.model == AMD_SEV
    for wrong in (
        allocated(),
        allocated(**{provider_of(AMD_SEV_ES): one}),
        allocated(**{provider_of(AMD_SEV): {"MEM_ENCRYPTION_CONTEXT": 2}}),
        allocated(**{provider_of(AMD_SEV): one, provider_of(AMD_SEV_ES): one}),
    ):
        with pytest.raises(AllocationMismatch, match="MEM_ENCRYPTION_CONTEXT"):
            claims.instance_claim(state, call(), NOON, replace(encrypted(), allocations=wrong))
    plain = replace(request(), allocations=right)
    with pytest.raises(AllocationMismatch, match="MEM_ENCRYPTION_CONTEXT"):
        claims.instance_claim(state, call(), NOON, plain)


def test_an_audit_keeps_the_context_of_a_guest():
    state, claim = built(sev_host())
    look = replace(seen(state), topology=state.topology)
    assert audited(running(state, claim), look).usage.quantities == {pool(AMD_SEV): 1}
