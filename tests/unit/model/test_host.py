"""HostState: what a fold makes of a change, and the invariants."""

import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.compute_node import compute_node
from rtagent.errors import InvariantViolated
from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.change import Change
from rtagent.model.holding import Holding
from rtagent.model.host import HOST, HostState, restore
from rtagent.model.numa_policy import NumaPolicy
from rtagent.model.numa_usage import Occupancy
from rtagent.model.topology import Cell, Topology
from rtagent.model.usage import Usage
from rtagent.views import Drift, drifts, orphans, suspects
from tests.builders import NODE, NOON, PINNED, PINNING, TOPOLOGY, call, host, request, uid
from tests.unit.model.placed import pinned_claim


def with_claim(state, asked):
    decision = claims.build(state, asked, call(operation_id=asked.claim_uuid), NOON)
    return state.fold(decision.change)


def with_holding(state, owner, vcpus=1, memory_mb=1):
    held = Holding(domain_uuid=owner, name="vm", active=True, vcpus=vcpus, memory_mb=memory_mb)
    return state.fold(Change(cause="audit", at=NOON, holdings=(held,)))


def test_a_state_says_all_in_one_line():
    state = with_claim(host(), request(2, 100))
    assert repr(state) == (
        "<HostState cn1.example r1 e0 claims=1 holdings=0 used=Usage(vcpus=2, memory_mb=100)>"
    )


def test_what_is_restored_equals_what_was_folded():
    state = host()
    for _ in range(5):
        state = with_claim(state, request(1, 100, 1))
    state = with_holding(state, uid(), 2, 50)
    blank = HostState(node=NODE, policy=state.policy, topology=TOPOLOGY)
    again = restore(blank, state.claims.values(), state.holdings.values(), state.revision)
    again.check()
    assert (again.usage, again.counters, again.owners) == (
        state.usage,
        state.counters,
        state.owners,
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"usage": Usage(vcpus=1)},
        {"counters": host().counters.set("num_instances", 2)},
        {"owners": host().owners},
    ],
)
def test_check_finds_what_does_not_add_up(wrong):
    state = with_claim(host(), request(2, 100))
    state.check()
    with pytest.raises(InvariantViolated):
        replace(state, **wrong).check()


@pytest.mark.parametrize(
    "wrong",
    [{"state": "released"}, {"node_uuid": uid()}, {"memory_mb": -1}, {"owner_id": uid()}],
)
def test_check_finds_a_claim_that_cannot_be(wrong):
    state = with_claim(host(), request(2, 100))
    (claim,) = state.claims.values()
    bad = replace(state, claims=state.claims.set(claim.uuid, replace(claim, **wrong)))
    with pytest.raises(InvariantViolated):
        bad.check_owners([claim.owner_id])


def test_a_cpu_of_two_owners_is_found_where_it_was_loaded_and_never_folded():
    state = with_claim(host(numa=PINNING), request(3, extra_specs=PINNED))
    (claim,) = state.claims.values()
    stolen = replace(claim, uuid=uid(), owner_id=uid())
    with pytest.raises(InvariantViolated, match="has two owners"):
        state.fold(Change(cause="x", at=NOON, puts=(stolen,)))
    loaded = restore(state, [claim, stolen], [], state.revision)
    with pytest.raises(InvariantViolated, match="has two owners"):
        loaded.check()


def test_two_claims_of_one_owner_violate_an_invariant():
    owner = uid()
    state = with_claim(host(), request(owner=owner))
    (claim,) = state.claims.values()
    twice = state.fold(Change(cause="x", at=NOON, puts=(replace(claim, uuid=uid()),)))
    with pytest.raises(InvariantViolated, match="more than one claim"):
        twice.check_owners([owner])


def test_what_was_touched_is_remembered_until_no_audit_can_ask():
    base = host()
    state = with_claim(base, request(owner=uid(1)))
    state = with_claim(state, request(owner=uid(2)))
    assert state.touched_since(uid(1), 0) and not state.touched_since(uid(1), 1)
    assert not state.touched_since(uid(3), 0)
    pruned = state.pruned(1)
    assert pruned.touched_since(uid(2), 1)
    assert uid(1) not in pruned.touched


def test_a_policy_touches_the_host():
    state = host()
    changed = state.fold(Change(cause="policy", at=NOON, policy=host(reserved_cpus=1).policy))
    assert changed.touched_since(HOST, 0)
    assert changed.policy.reserved_cpus == 1


def test_the_record_has_novas_fields_and_may_be_overdrawn():
    state = host(reserved_memory_mb=512, reserved_disk_mb=1024, ram_allocation_ratio=2.0)
    facts = {
        "project_id": "p",
        "vm_state": "building",
        "os_type": "linux",
        "task_state": "spawning",
    }
    state = with_claim(state, request(8, 16384, 10, swap=1, instance=facts))
    record = compute_node(with_holding(state, uid(), 2, 1000))
    assert record["vcpus"] == 8 and record["vcpus_used"] == 10
    assert record["memory_mb_used"] == 512 + 16384 + 1000
    assert record["free_ram_mb"] == 16384 - 512 - 16384 - 1000 < 0
    assert (record["local_gb"], record["local_gb_used"], record["free_disk_gb"]) == (100, 12, 88)
    assert record["running_vms"] == 1 and record["current_workload"] == 1
    assert record["stats"] == {
        "num_instances": 1,
        "num_vm_building": 1,
        "num_task_spawning": 1,
        "num_os_type_linux": 1,
        "num_proj_p": 1,
        "io_workload": 1,
        "failed_builds": 0,
    }
    assert record["ram_allocation_ratio"] == 2.0


CELLS = Topology(
    cpus=frozenset(range(6)),
    memory_mb=4096,
    disk_mb=1024,
    cells=(
        Cell(
            id=0,
            cpus=frozenset({0, 1, 4, 5}),
            memory_mb=3072,
            offline=frozenset({6}),
            siblings=(frozenset({0, 4}), frozenset({1, 5})),
            pages={4: 2**18, 2048: 512},
        ),
        Cell(id=3, cpus=frozenset({2, 3}), memory_mb=1024),
    ),
)
SETS = NumaPolicy(
    cpu_shared_set=frozenset({2, 7}),
    cpu_dedicated_set=frozenset({0, 1, 4, 5, 6}),
    reserved_huge_pages={0: {2048: 16}},
)


def test_the_record_shows_the_cells_and_what_of_them_is_used():
    state = with_claim(host(CELLS, numa=SETS), request(1, 100))
    pinned = pinned_claim(1, 6, kept=(5,), memory_mb=64, pagesize=2048)
    state = state.fold(Change(cause="x", at=NOON, puts=(pinned,)))
    bound = Occupancy(pcpus=frozenset({0}), memory_mb={3: 7})
    held = Holding(domain_uuid=uid(), name="vm", active=True, vcpus=1, memory_mb=7, occupancy=bound)
    record = compute_node(state.fold(Change(cause="audit", at=NOON, holdings=(held,))))
    assert record["vcpus"] == 5
    assert record["vcpus_used"] == 1 + 2 + 1
    assert record["numa_topology"] == {
        "cells": [
            {
                "id": 0,
                "cpuset": [],
                "pcpuset": [0, 1, 4, 5],
                "cpu_usage": 0,
                "pinned_cpus": [0, 1, 5, 6],
                "siblings": [[0, 4], [1, 5]],
                "memory": 3072,
                "memory_usage": 64,
                "mempages": [
                    {"size_kb": 4, "total": 2**18, "used": 0, "reserved": 0},
                    {"size_kb": 2048, "total": 512, "used": 32, "reserved": 16},
                ],
            },
            {
                "id": 3,
                "cpuset": [2],
                "pcpuset": [],
                "cpu_usage": 0,
                "pinned_cpus": [],
                "siblings": [],
                "memory": 1024,
                "memory_usage": 7,
                "mempages": [],
            },
        ]
    }


def test_shared_cpus_of_a_cell_are_counted_where_they_float():
    floating = Assignment(cells=(CellAssignment(id=3, memory=5, cpuset=frozenset({0, 1})),))
    claim = replace(pinned_claim(), numa_topology=floating, vcpus=2)
    state = host(CELLS).fold(Change(cause="x", at=NOON, puts=(claim,)))
    cells = compute_node(state)["numa_topology"]["cells"]
    assert [cell["cpu_usage"] for cell in cells] == [0, 2]
    assert [cell["cpuset"] for cell in cells] == [[0, 1, 4, 5], [2, 3]]


@pytest.mark.parametrize("topology", [None, replace(TOPOLOGY, cells=())])
def test_a_host_without_cells_has_none_in_its_record(topology):
    assert compute_node(host(topology))["numa_topology"] is None


def test_views_tell_orphans_drifts_and_suspects_apart():
    owner, stranger = uid(), uid()
    state = with_holding(with_claim(host(), request(2, 100, owner=owner)), owner, 3, 100)
    state = with_holding(state, stranger)
    (claim,) = state.claims.values()
    assert [h.domain_uuid for h in orphans(state)] == [stranger]
    assert drifts(state) == (
        Drift(
            owner_id=owner,
            claim_uuid=claim.uuid,
            resource="VCPU",
            claimed=2,
            observed=3,
            unit="vCPUs",
        ),
    )
    assert suspects(state) == ()
