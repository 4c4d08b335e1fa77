"""Providers of contexts for the encryption of guests' memory."""

from msgspec.structs import replace

from rtagent import claims
from rtagent.model.mem_encryption import AMD_SEV
from rtagent.placement import tree
from tests.support.device_states import encrypted, orphan, provider_of, sev_host
from tests.support.hosts import NODE, NOON, TOPOLOGY, call, with_claims


def encrypting(state):
    built = tree.build(state, disabled=False, hypervisor_up=True)
    return {
        each.name.removeprefix(f"{NODE.hypervisor_hostname}_"): each for each in built.providers
    }


def test_each_model_of_encryption_has_a_provider_named_as_in_nova():
    state = sev_host()
    found = encrypting(state)
    sev, es = found["amd_sev"], found["amd_sev_es"]
    assert (sev.uuid, sev.parent) == (provider_of(AMD_SEV), NODE.uuid)
    assert sev.traits == {"HW_CPU_X86_AMD_SEV", "OWNER_NOVA"}
    assert es.traits == {"HW_CPU_X86_AMD_SEV_ES", "OWNER_NOVA"}
    record = sev.inventories["MEM_ENCRYPTION_CONTEXT"]
    assert (record.total, record.reserved, record.max_unit) == (2, 0, 1)
    root = found[NODE.hypervisor_hostname]
    assert "MEM_ENCRYPTION_CONTEXT" not in root.inventories
    assert not any("SEV" in trait for trait in root.traits)


def test_contexts_in_use_without_a_claim_are_reserved():
    state = with_claims(sev_host(), (), (orphan(),))
    decision = claims.instance_claim(state, call(), NOON, encrypted())
    state = state.fold(decision.change)
    record = encrypting(state)["amd_sev"].inventories["MEM_ENCRYPTION_CONTEXT"]
    assert (record.total, record.reserved) == (2, 1)


def test_contexts_of_claims_stay_when_the_host_has_lost_the_encryption():
    state = sev_host()
    state = state.fold(claims.instance_claim(state, call(), NOON, encrypted()).change)
    state = replace(state, topology=replace(TOPOLOGY, mem_encryption=()))
    found = encrypting(state)
    assert "amd_sev_es" not in found
    record = found["amd_sev"].inventories["MEM_ENCRYPTION_CONTEXT"]
    assert (record.total, record.reserved) == (1, 0)
