"""NodeState: folding changes, restoring, invariants."""

import pytest
from msgspec.structs import replace

from rtagent.errors import InvariantViolated
from rtagent.lifecycle.moves import move_claim
from rtagent.model import stats
from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.change import Change
from rtagent.model.claim import ATTACH
from rtagent.model.domain_usage import Occupancy
from rtagent.model.migration import MoveRequest
from rtagent.model.node_state import HOST
from rtagent.model.policy import NumaPolicy
from rtagent.model.usage import NumaUsage, Usage, assignment_usage
from tests.support.device_states import build_claim, running, with_builds
from tests.support.hosts import (
    NOON,
    PINNED,
    PINNING,
    call,
    domain_usage,
    host,
    observed,
    request,
    uid,
    with_claims,
)


def test_repr_is_one_line():
    state = with_builds(host(), request(2, 100))
    assert repr(state) == (
        "<NodeState cn1.example r1 e0 claims=1 domain_usages=0 used=Usage(vcpus=2, memory_mb=100)>"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"usage": Usage(vcpus=1)},
        {"counters": host().counters.set("num_instances", 2)},
        {"owners": host().owners},
    ],
)
def test_check_finds_wrong_sums_and_indexes(wrong):
    state = with_builds(host(), request(2, 100))
    state.check()
    with pytest.raises(InvariantViolated):
        replace(state, **wrong).check()


@pytest.mark.parametrize(
    "wrong", [{"state": "released"}, {"node_uuid": uid()}, {"memory_mb": -1}, {"owner_id": uid()}]
)
def test_check_finds_an_impossible_claim(wrong):
    state = with_builds(host(), request(2, 100))
    (claim,) = state.claims.values()
    bad = replace(state, claims=state.claims.set(claim.uuid, replace(claim, **wrong)))
    with pytest.raises(InvariantViolated):
        bad.check_owners([claim.owner_id])


def test_cpu_with_two_owners_is_refused_by_fold_and_found_by_check():
    state = with_builds(host(numa=PINNING), request(3, extra_specs=PINNED))
    (claim,) = state.claims.values()
    stolen = replace(claim, uuid=uid(), owner_id=uid())
    with pytest.raises(InvariantViolated, match="has two owners"):
        state.fold(Change(cause="x", at=NOON, puts=(stolen,)))
    loaded = with_claims(state, [claim, stolen], (), state.revision)
    with pytest.raises(InvariantViolated, match="has two owners"):
        loaded.check()


def test_two_main_claims_of_one_owner_violate_an_invariant():
    state = with_builds(host(), request())
    (claim,) = state.claims.values()
    twice = state.fold(Change(cause="x", at=NOON, puts=(replace(claim, uuid=uid()),)))
    with pytest.raises(InvariantViolated, match="more than one claim"):
        twice.check_owners([claim.owner_id])


def test_touched_entries_last_until_they_are_pruned():
    state = with_builds(host(), request(owner=uid(1)))
    state = with_builds(state, request(owner=uid(2)))
    assert state.touched_since(uid(1), 0) and not state.touched_since(uid(1), 1)
    assert not state.touched_since(uid(3), 0)
    pruned = state.pruned(1)
    assert pruned.touched_since(uid(2), 1)
    assert uid(1) not in pruned.touched


def test_new_policy_touches_the_host():
    state = host()
    changed = state.fold(Change(cause="policy", at=NOON, policy=host(reserved_cpus=1).policy))
    assert changed.touched_since(HOST, 0)
    assert changed.policy.reserved_cpus == 1


# --- what is summed up ---


def with_move(state):
    """A guest that is resized on its host."""
    state, claim = build_claim(state, request(3))
    build = request(4, owner=claim.owner_id)
    move = MoveRequest(build=build, migration="resize", old_flavor=claim.flavor)
    state = running(state, claim)
    return state.fold(move_claim(state, call("resize_claim"), NOON, move).change)


def with_domain(state):
    """A domain that nothing claims, on two CPUs."""
    cpus = tuple(map(frozenset, ([4], [6])))
    occupancy = Occupancy(pcpus=frozenset({4, 6}), vcpus=cpus)
    return observed(state, domain_usage(vcpus=2, occupancy=occupancy))


@pytest.mark.parametrize(
    "made, options, vcpus",
    [
        (with_move, {"same_host_resize_reuse": True}, (7, 4)),
        (with_domain, {"numa": PINNING}, (2, 0)),
    ],
)
def test_new_policy_changes_what_owners_count_for(made, options, vcpus):
    before = made(with_builds(host(), request(1)))
    after = before.fold(Change(cause="policy", at=NOON, policy=host(**options).policy))
    after.check()
    again = after.fold(Change(cause="policy", at=NOON, policy=before.policy))
    assert (before.usage.vcpus - 1, after.usage.vcpus - 1) == vcpus
    assert again.usage == before.usage


@pytest.mark.parametrize("shared", [None, frozenset(range(8))])
def test_a_domain_that_floats_on_a_cell_keeps_no_cpu_from_others(shared):
    cpus = frozenset({0, 1, 2, 3})
    usage = domain_usage(vcpus=2, occupancy=Occupancy(pcpus=cpus, vcpus=(cpus, cpus)))
    state = observed(host(numa=NumaPolicy(cpu_shared_set=shared)), usage)
    assert state.usage == Usage(vcpus=2, memory_mb=1)


def test_usage_of_an_assignment_counts_every_part():
    first = CellAssignment(
        id=0,
        memory=1024,
        cpuset=frozenset({2, 3}),
        cpu_pinning={0: 4, 1: 6},
        cpuset_reserved=frozenset({8}),
        cpuset_kept=frozenset({5, 7}),
        pagesize=2048,
    )
    both = Assignment(cells=(first, CellAssignment(id=2, memory=512)))
    cpus = {"pinned": {4: 1, 6: 1, 8: 1}, "kept": {5: 1, 7: 1}, "vcpus": {0: 2}}
    memory = {"memory_mb": {0: 1024, 2: 512}, "pages": {(0, 2048): 512}}
    assert assignment_usage(both) == NumaUsage(**cpus, **memory)


def test_instance_counts_once_for_any_number_of_claims():
    (claim,) = with_builds(host(), request()).claims.values()
    names = ("os_type_None", "proj_None", "task_None", "vm_None")
    keys = stats.keys([claim, replace(claim, kind=ATTACH)], {})
    assert sorted(keys) == ["num_instances", *(f"num_{name}" for name in names)]
