"""Quantities of the resource classes that provider files offer, and contexts for encryption."""

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from rtagent import claims
from rtagent.allocation.requirements import requested_encryption
from rtagent.errors import (
    AllocationMismatch,
    FlavorImageConflict,
    PropertyConflict,
    PropertyInvalid,
)
from rtagent.lifecycle.moves.destination import move_claim
from rtagent.model.claim import EVACUATION, LIVE_MIGRATION
from rtagent.model.decision import Granted, ReasonCode
from rtagent.model.mem_encryption import (
    AMD_SEV,
    AMD_SEV_ES,
    INTEL_TDX,
    MODELS,
    EncryptionCapacity,
    MemEncryption,
    pool,
)
from rtagent.model.migration import MoveRequest
from rtagent.model.policy import PlacementPolicy
from rtagent.model.provider_names import provider_uuid
from rtagent.model.request import Allocation, Flavor
from rtagent.numa.properties import Properties
from rtagent.reconcile.drift import drifts
from tests.support.device_states import (
    SEV,
    after,
    build_claim,
    encrypted,
    orphan,
    provider_of,
    refusal,
    released,
    running,
    sev_host,
)
from tests.support.hosts import NODE, NOON, call, host, request, with_claims
from tests.support.provider_files import added

FOO = "CUSTOM_FOO"


def offer(suffix="", **limits):
    return added(FOO, suffix, **limits)


def offering(*offered, **policy):
    return host(placement=PlacementPolicy(additional=offered), **policy)


def wanting(quantity, **other):
    return request(1, 64, extra_specs={f"resources:{FOO}": str(quantity)}, **other)


def claimed(state, quantity, **other):
    return build_claim(state, wanting(quantity, **other))


def why_not(state, quantity):
    (reason,) = refusal(state, wanting(quantity)).reasons
    return reason.code, reason.requested, reason.available


@pytest.mark.parametrize(
    ("limits", "quantity", "expected"),
    [
        ({"max_unit": 4}, 5, (ReasonCode.EXCEEDS_HOST, 5, 4)),
        ({"max_unit": 20}, 11, (ReasonCode.EXCEEDS_HOST, 11, 10)),
        ({"min_unit": 3}, 2, (ReasonCode.BELOW_MINIMUM, 2, 3)),
        ({"step_size": 4}, 6, (ReasonCode.NOT_A_MULTIPLE, 6, 4)),
    ],
)
def test_one_claim_respects_the_limits_of_the_inventory(limits, quantity, expected):
    assert why_not(offering(offer(**limits)), quantity) == expected


def test_first_provider_with_enough_gives_the_whole_quantity():
    state = offering(offer(), offer("RACK"))
    state, claim = claimed(state, 8)
    assert [each.suffix for each in claim.quantities] == [""]
    state, claim = claimed(state, 8)
    assert claim.quantities[0].provider == provider_uuid(NODE, state.policy.placement, "RACK")
    assert why_not(state, 8) == (ReasonCode.INSUFFICIENT, 8, 4)


def test_class_that_nobody_offers_is_refused_by_its_name():
    assert why_not(host(), 1) == (ReasonCode.NOT_OFFERED, 1, 0)


def test_claims_keep_what_is_offered_no_more():
    state, claim = claimed(offering(offer()), 8)
    state = with_claims(host(), [claim])
    state.check()
    assert state.usage.quantities == {("", FOO): 8}
    state = with_claims(offering(offer()), [claim])
    assert why_not(state, 5) == (ReasonCode.INSUFFICIENT, 5, 4)


@pytest.mark.parametrize(("reuse", "expected"), [(False, 7), (True, 4)])
def test_both_claims_of_a_resize_on_one_host_count(reuse, expected):
    state, claim = claimed(offering(offer(), same_host_resize_reuse=reuse), 3)
    state = running(state, claim)
    build = wanting(4, owner=claim.owner_id)
    move = MoveRequest(build=build, migration="resize", old_flavor=claim.flavor)
    state, _ = after(state, move_claim(state, call("resize_claim"), NOON, move))
    assert state.usage.quantities == {("", FOO): expected}


@pytest.mark.parametrize(
    ("policy", "numbers", "expected"),
    [
        ("none", (2, 3), {"": 5}),
        ("isolate", (2, 3), {"": 3, "_x": 2}),
        ("none", (9, 9), {"": 9, "_x": 9}),
    ],
)
def test_numbered_groups_come_from_one_provider_each(policy, numbers, expected):
    specs = {f"resources{n}:{FOO}": str(number) for n, number in enumerate(numbers)}
    wanted = request(1, 64, extra_specs={**specs, "group_policy": policy})
    _, claim = build_claim(offering(offer(), offer("_x")), wanted)
    assert {each.suffix: each.quantity for each in claim.quantities} == expected


def test_numbered_groups_that_do_not_fit_together_are_refused_with_what_does():
    specs = {f"resources{n}:{FOO}": "9" for n in range(3)}
    wanted = request(1, 64, extra_specs={**specs, "group_policy": "isolate"})
    (reason,) = refusal(offering(offer(), offer("_x")), wanted).reasons
    assert (reason.requested, reason.available) == (27, 18)
    assert "with group_policy=isolate" in str(reason)


def built(state, model=None, **arguments):
    return build_claim(state, encrypted(model, **arguments))


def refused(state, model=None):
    reasons = refusal(state, encrypted(model)).reasons
    return [(r.code, r.where, r.requested, r.available) for r in reasons]


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


@pytest.mark.parametrize("model", MODELS)
def test_a_host_without_encryption_refuses_it_by_name(model):
    where = f"{NODE_NAME}_{model.replace('-', '_')}"
    assert refused(host(), model) == [("not_offered", where, 1, 0)]
    answer = str(refusal(host(), encrypted(model)))
    assert "MEM_ENCRYPTION_CONTEXT: 1 contexts requested" in answer


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


@pytest.mark.parametrize(("keys", "allowed"), [(None, 1), (1, UNSET), (2, 1), (1, 5)])
def test_guests_with_intel_tdx_are_as_many_as_kernel_and_operator_allow(keys, allowed):
    tdx = EncryptionCapacity(model=INTEL_TDX, contexts=keys)
    state, _ = built(sev_host(tdx, max_tdx_guests=allowed), INTEL_TDX)
    assert refused(state, INTEL_TDX) == [("insufficient", f"{NODE_NAME}_intel_tdx", 1, 0)]
    none = sev_host(replace(tdx, contexts=None))
    assert refused(none, INTEL_TDX) == [("not_offered", f"{NODE_NAME}_intel_tdx", 1, 0)]


def test_domains_without_a_claim_count():
    state = with_claims(sev_host(), (), (orphan(), orphan()))
    assert refused(state) == [("insufficient", f"{NODE_NAME}_amd_sev", 1, 0)]
    state, _ = built(state, owner=next(iter(state.domain_usages)))
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
    amounts = {each.resource: (each.claimed, each.observed) for each in drifts(state)}
    context = "MEM_ENCRYPTION_CONTEXT"
    assert amounts == {f"{context} amd-sev": (1, 0), f"{context} amd-sev-es": (0, 1)}


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
    root = {NODE.uuid: Allocation(resources={"VCPU": 1, "MEMORY_MB": 1024})}
    return root | {uuid: Allocation(resources=each) for uuid, each in parts.items()}


def test_a_claim_follows_the_allocation_of_its_context():
    one = {"MEM_ENCRYPTION_CONTEXT": 1}
    right = allocated(**{provider_of(AMD_SEV): one})
    state, claim = build_claim(sev_host(), replace(encrypted(), allocations=right))
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


UEFI = {"hw_firmware_type": "uefi"}
Q35 = {**UEFI, "hw_machine_type": "pc-q35-9.0"}
YES = {"hw:mem_encryption": "yes"}
ES, SNP, TDX = (
    {"hw:mem_encryption_model": name} for name in ("amd-sev-es", "amd-sev-snp", "intel-tdx")
)


def requested(flavor: dict[str, str], image: dict[str, str]) -> str | None:
    properties = Properties(vcpus=1, memory_mb=64, extra_specs=flavor, image={**UEFI, **image})
    return requested_encryption(properties)


@pytest.mark.parametrize(
    ("flavor", "image", "expected"),
    [
        ({}, {}, None),
        ({"hw:mem_encryption": "false"}, {}, None),
        ({"hw:mem_encryption": ""}, {"hw_mem_encryption": "no"}, None),
        ({"hw:mem_encryption": "true"}, {}, "amd-sev"),
        ({}, {"hw_mem_encryption": "True"}, "amd-sev"),
        ({"hw:mem_encryption": "1"}, {"hw_mem_encryption": "yes"}, "amd-sev"),
        ({"hw:mem_encryption": "1", "hw:mem_encryption_model": "amd-sev"}, {}, "amd-sev"),
        ({"hw:mem_encryption": "1"}, {"hw_mem_encryption_model": "amd-sev-es"}, "amd-sev-es"),
        ({"hw:mem_encryption": "1"}, Q35, "amd-sev"),
        ({"hw:mem_encryption": "1"}, {"hw_machine_type": "q35"}, "amd-sev"),
        ({**YES, **SNP}, {"hw_firmware_stateless": "true"}, "amd-sev-snp"),
        (
            {**YES, **TDX},
            {"hw_firmware_stateless": "1", "hw_video_model": "none", **Q35},
            "intel-tdx",
        ),
    ],
)
def test_either_side_requests_a_model(flavor, image, expected):
    assert requested(flavor, image) == expected


@pytest.mark.parametrize(
    ("flavor", "image", "error", "named"),
    [
        (YES, {"hw_mem_encryption": "no"}, FlavorImageConflict, "hw_mem_encryption=no"),
        (
            {**YES, **ES},
            {"hw_mem_encryption_model": "amd-sev"},
            FlavorImageConflict,
            "hw_mem_encryption_model=amd-sev",
        ),
        (YES, {"hw_firmware_type": "bios"}, PropertyConflict, "hw_firmware_type=bios"),
        (YES, {"hw_firmware_type": ""}, PropertyConflict, "needs hw_firmware_type=uefi"),
        (YES, {"hw_machine_type": "pc-i440fx"}, PropertyConflict, "hw_machine_type=pc-i440fx"),
        (ES, {}, PropertyConflict, "hw:mem_encryption_model=amd-sev-es"),
        ({**ES, "hw:mem_encryption": "no"}, {}, PropertyConflict, "hw:mem_encryption=no"),
        ({"hw:mem_encryption": "maybe"}, {}, PropertyInvalid, "hw:mem_encryption=maybe"),
        (
            {**YES, "hw:mem_encryption_model": "arm-cca"},
            {},
            PropertyInvalid,
            "arm-cca: must be one of amd-sev, amd-sev-es, amd-sev-snp, intel-tdx",
        ),
        ({**YES, **SNP}, {}, PropertyConflict, "hw_firmware_stateless=true"),
        (
            {**YES, **SNP},
            {"hw_firmware_stateless": "no"},
            PropertyConflict,
            "hw_firmware_stateless=no",
        ),
        ({**YES, **TDX}, {"hw_video_model": "none"}, PropertyConflict, "hw_firmware_stateless"),
        ({**YES, **TDX}, {"hw_firmware_stateless": "1"}, PropertyConflict, "hw_video_model=none"),
        (
            {**YES, **TDX},
            {"hw_firmware_stateless": "1", "hw_video_model": "vga"},
            PropertyConflict,
            "hw_video_model=vga",
        ),
    ],
)
def test_what_no_guest_can_have_is_refused_with_its_properties(flavor, image, error, named):
    with pytest.raises(error) as refused:
        requested(flavor, image)
    assert named in str(refused.value)
