"""Claims of what an instance has already, as its caller states it."""

import pytest

from rtagent.errors import ClaimConflict, ClaimNotFound, NodeNotReady, UnitConflict
from rtagent.lifecycle.adopt_claim import adopt_claim, adopt_mdevs
from rtagent.model.assignment import AssignedQuantity, AssignedResource
from rtagent.model.claim import ACTIVE, ATTACH, BUILD, LIVE_MIGRATION, OUTGOING, RESIZE
from rtagent.model.device import SRIOV_PF, SRIOV_VF
from rtagent.model.mem_encryption import AMD_SEV, MemEncryption, pool
from rtagent.model.migration import CONFIRMED, DEST, FINISHED, MIGRATING, SOURCE, MigrationFacts
from tests.support.claims import given, stated
from tests.support.device_states import PMEM, addresses, after, built, device_host, policy, released
from tests.support.hosts import NOON, call, host, uid
from tests.support.pci_hosts import GPU_0, GPU_1, PF_0, PF_IDS, VF_IDS, vf

OWNER = uid(77)


def adopted(state, asked, **more):
    """The state after an adoption, every invariant checked, and the claim."""
    return after(state, adopt_claim(state, call("adopt", **more), NOON, asked))


def conflicts(state, asked):
    with pytest.raises(UnitConflict) as error:
        adopt_claim(state, call("adopt"), NOON, asked)
    return [(e["kind"], e["name"], e["owner_id"]) for e in error.value.kwargs["conflicts"]]


def facts(kind=RESIZE, **more):
    return MigrationFacts(uuid=uid(), migration_type=kind, **more)


def test_claim_has_what_is_stated_and_is_active():
    asked = stated(cpus=(2, 3), devices=[GPU_1], namespaces=["ns1"], flavor={"root_gb": 7})
    state, claim = adopted(device_host(pci=policy(pmem=(PMEM,))), asked)
    assert (claim.kind, claim.state, claim.expires_at) == (BUILD, ACTIVE, None)
    assert claim.units == {("PCPU", "2"), ("PCPU", "3"), ("PCI", GPU_1), ("RESOURCE", "ns1")}
    assert state.usage.numa.pinned == {2: 1, 3: 1}
    assert (state.usage.vcpus, state.usage.pcpus) == (0, 2)
    assert (state.usage.memory_mb, state.usage.disk_mb) == (1024, 7 * 1024)


def test_amounts_are_not_judged():
    state, _ = adopted(device_host(), stated(flavor={"vcpus": 900, "root_gb": 100_000}))
    assert state.usage.vcpus == 900


def test_device_gets_what_its_record_has():
    _, claim = adopted(device_host(), stated(devices=[given(vf(2), VF_IDS, dev_type=SRIOV_VF)]))
    (device,) = claim.pci
    assert (device.parent_addr, device.numa_node, device.request_id) == (PF_0, 0, "r")


@pytest.mark.parametrize(
    ("held", "asked", "expected"),
    [
        ({"cpus": (2, 3)}, {"cpus": (3,)}, [("PCPU", "3", OWNER)]),
        ({"devices": [GPU_0, GPU_1]}, {"devices": [GPU_1]}, [("PCI", GPU_1, OWNER)]),
        (
            {"devices": [given(PF_0, PF_IDS, dev_type=SRIOV_PF)]},
            {"devices": [given(vf(0), VF_IDS, dev_type=SRIOV_VF)]},
            [("PCI", PF_0, OWNER)],
        ),
        (
            {"devices": [given(vf(0), VF_IDS, dev_type=SRIOV_VF)]},
            {"devices": [given(PF_0, PF_IDS, dev_type=SRIOV_PF)]},
            [("PCI", vf(0), OWNER)],
        ),
        (
            {"cpus": (2,), "devices": [GPU_0]},
            {"cpus": (2,), "devices": [GPU_0]},
            [("PCPU", "2", OWNER), ("PCI", GPU_0, OWNER)],
        ),
    ],
)
def test_units_of_another_owner_are_a_conflict_that_names_them(held, asked, expected):
    state, _ = adopted(device_host(), stated(OWNER, **held))
    assert conflicts(state, stated(**asked)) == expected


def test_message_of_a_conflict_names_unit_claim_and_owner():
    state, claim = adopted(device_host(), stated(OWNER, cpus=(2,)))
    with pytest.raises(
        UnitConflict, match=f"^host CPU 2 is held by claim {claim.uuid} of instance {OWNER}$"
    ):
        adopt_claim(state, call(), NOON, stated(cpus=(2,)))


def test_request_that_contradicts_itself_is_a_conflict():
    functions = [given(PF_0, PF_IDS, dev_type=SRIOV_PF), given(vf(0), VF_IDS, dev_type=SRIOV_VF)]
    with pytest.raises(ClaimConflict, match="both allocated"):
        adopt_claim(device_host(), call(), NOON, stated(devices=functions))


def test_flavor_that_no_claim_could_have_is_adopted():
    odd = {"hw:cpu_policy": "no such policy"}
    _, claim = adopted(device_host(), stated(cpus=(2,), flavor={"extra_specs": odd}))
    assert claim.numa_topology.taken == {2}


def test_owner_has_one_claim_outside_moves():
    state, claim = built(device_host(), owner=OWNER)
    with pytest.raises(ClaimConflict, match=claim.uuid):
        adopt_claim(state, call(), NOON, stated(OWNER))


def test_uuid_of_another_claim_is_a_conflict():
    state, claim = built(device_host())
    with pytest.raises(ClaimConflict, match=claim.uuid):
        adopt_claim(state, call(operation_id=claim.uuid), NOON, stated())


def test_host_that_was_never_observed_adopts_nothing():
    with pytest.raises(NodeNotReady):
        adopt_claim(host(None), call(), NOON, stated())


def test_claim_of_a_move_is_the_second_one_and_may_share_units():
    state, _ = adopted(device_host(), stated(OWNER, cpus=(2, 3), devices=[GPU_0]))
    move = facts()
    asked = stated(OWNER, cpus=(2, 3, 4), devices=[GPU_0, GPU_1], migration=move)
    state, second = adopted(state, asked)
    assert (second.kind, second.state, second.migration_uuid) == (RESIZE, ACTIVE, move.uuid)
    record = state.migrations[move.uuid]
    assert (record.role, record.status, record.claim_uuid) == (DEST, FINISHED, second.uuid)
    assert dict(state.units)["PCI", GPU_0] == OWNER
    for again in (stated(OWNER, migration=move), stated(OWNER, migration=facts()), stated(OWNER)):
        with pytest.raises(ClaimConflict):
            adopt_claim(state, call(), NOON, again)


def test_claim_at_the_source_of_a_move_is_outgoing():
    move = facts(LIVE_MIGRATION, status="accepted")
    state, claim = adopted(device_host(), stated(OWNER, migration=move, role=SOURCE))
    assert (claim.kind, claim.state, claim.migration_uuid) == (BUILD, OUTGOING, move.uuid)
    record = state.migrations[move.uuid]
    assert (record.role, record.status) == (SOURCE, "accepted")


@pytest.mark.parametrize("order", [(SOURCE, DEST), (DEST, SOURCE)])
def test_both_claims_of_a_move_on_one_host_are_adopted_in_any_order(order):
    state, move, made = device_host(), facts(), {}
    for role in order:
        state, made[role] = adopted(state, stated(OWNER, migration=move, role=role))
    assert (made[SOURCE].state, made[DEST].state) == (OUTGOING, ACTIVE)
    record = state.migrations[move.uuid]
    assert (record.role, record.claim_uuid, record.status) == (DEST, made[DEST].uuid, FINISHED)


def test_claim_of_a_source_beside_a_claim_whose_move_is_not_stated():
    state, _ = adopted(device_host(), stated(OWNER))
    state, held = adopted(state, stated(OWNER, migration=facts(), role=SOURCE))
    assert (held.kind, held.state) == (RESIZE, OUTGOING)
    assert state.migrations[held.migration_uuid].status == MIGRATING


def test_migration_of_another_instance_is_a_conflict():
    move = facts(status=CONFIRMED)
    state, _ = adopted(device_host(), stated(migration=move))
    with pytest.raises(ClaimConflict, match=move.uuid):
        adopt_claim(state, call(), NOON, stated(migration=move))


def test_attached_devices_are_adopted_with_and_without_a_main_claim():
    state, main = built(device_host(), owner=OWNER)
    state, claim = adopted(state, stated(OWNER, devices=[GPU_0], attached=True))
    assert (claim.kind, claim.state, addresses(claim)) == (ATTACH, ACTIVE, [GPU_0])
    assert (claim.vcpus, claim.memory_mb, claim.disk_mb) == (0, 0, 0)
    state, other = adopted(state, stated(devices=[GPU_1], attached=True))
    assert [*released(state, main).claims] == [other.uuid]


def test_attached_devices_take_part_in_no_move():
    asked = stated(cpus=(2,), devices=[GPU_0], attached=True, migration=facts(), role=SOURCE)
    state, claim = adopted(device_host(), asked)
    assert (claim.state, claim.migration_uuid, claim.numa_topology) == (ACTIVE, None, None)
    assert not state.migrations


def test_guest_with_a_stated_context_is_encrypted_by_its_model():
    suffix, name = pool(AMD_SEV)
    context = AssignedQuantity(provider=uid(5), suffix=suffix, resource_class=name, quantity=1)
    _, claim = adopted(device_host(), stated(quantities=(context,)))
    assert claim.mem_encryption == MemEncryption(model=AMD_SEV)


def mdev(number):
    return AssignedResource(
        resource_class="VGPU", identifier=f"{GPU_0}/nvidia-11/{uid(number)}", parent_addr=GPU_0
    )


def with_mdevs(state, claim, *mdevs):
    return after(state, adopt_mdevs(state, call("adopt_mdevs"), NOON, claim.uuid, mdevs))


def test_mediated_devices_of_a_guest_take_the_place_of_those_that_its_claim_has():
    asked = stated(cpus=(2,), namespaces=["ns1"])
    state, claim = adopted(device_host(pci=policy(pmem=(PMEM,))), asked)
    state, first = with_mdevs(state, claim, mdev(1), mdev(2))
    state, second = with_mdevs(state, first, mdev(2))
    names = [mdev(1).identifier, mdev(2).identifier]
    assert first.units == claim.units | {("RESOURCE", name) for name in names}
    assert second.units == claim.units | {("RESOURCE", names[1])}
    assert second.state == claim.state
    assert with_mdevs(state, second)[1].units == claim.units


def test_mediated_device_that_another_owner_holds_is_refused():
    state, first = adopted(device_host(), stated())
    state, second = adopted(state, stated())
    state, _ = with_mdevs(state, first, mdev(1))
    with pytest.raises(UnitConflict, match=f"{mdev(1).identifier} is held by claim {first.uuid}"):
        adopt_mdevs(state, call("adopt_mdevs"), NOON, second.uuid, [mdev(2), mdev(1)])


def test_mediated_devices_of_a_claim_that_has_ended_are_refused():
    state, claim = adopted(device_host(), stated())
    with pytest.raises(ClaimNotFound):
        adopt_mdevs(released(state, claim), call("adopt_mdevs"), NOON, claim.uuid, [mdev(1)])
