"""The assignment of a guest that is placed here, however its claim came into being."""

import pytest
from msgspec.structs import replace

from rtagent.claims import instance_claim
from rtagent.lifecycle.adopt_claim import adopt_claim
from rtagent.lifecycle.placed_guests import follow_configuration, follows_configuration
from rtagent.lifecycle.stated_ends import release_claims
from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.change import Change
from rtagent.model.claim import DAMAGED
from rtagent.model.domain_usage import DomainUsage, Occupancy
from rtagent.model.guest import AdoptRequest
from rtagent.model.policy import Policy
from rtagent.model.request import Instance
from tests.support.hosts import NOON, PINNED, PINNING, call, host, request, uid, with_claims
from tests.support.numa_hosts import LARGE, ONE_CELL, PAGES

KINDS = {
    "plain": {},
    "cells": {"hw:numa_nodes": "1"},
    "pinned": PINNED,
    "mixed": {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"},
    "isolated": {**PINNED, "hw:cpu_thread_policy": "isolate"},
    "large pages": {"hw:mem_page_size": str(LARGE)},
    "emulator isolated": {**PINNED, "hw:emulator_threads_policy": "isolate"},
    "emulator shared": {**PINNED, "hw:emulator_threads_policy": "share"},
    "realtime": {**PINNED, "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"},
}
EVERY = frozenset(range(8))
#: CPU 1 was a shared one, and is now a dedicated one.
LATER = replace(PINNING, cpu_shared_set=frozenset({0}), cpu_dedicated_set=frozenset(range(1, 8)))


def built(state, specs=None):
    """The state after a build, and the claim."""
    asked = request(2, 512, extra_specs=specs or {})
    granted = instance_claim(state, call(), NOON, asked, active=True)
    return state.fold(granted.change), granted.claims[0]


def stated_cells(claim):
    """What Nova's database says of a guest."""
    cells = tuple(
        CellAssignment(
            id=cell.id,
            memory=cell.memory,
            cpuset=cell.cpuset,
            cpu_pinning=cell.cpu_pinning,
            cpuset_reserved=cell.cpuset_reserved,
            pagesize=cell.pagesize,
        )
        for cell in claim.numa_topology.cells
    )
    return Assignment(cells=cells) if cells else None


def running(claim):
    """The change that records the domain of a claim's guest as one without a claim."""
    cells = claim.numa_topology.cells
    vcpus = [cell.pcpus_of(vcpu) for cell in cells for vcpu in cell.vcpus]
    vcpus = vcpus or [claim.numa_topology.shared_pcpus] * claim.flavor.vcpus
    occupancy = Occupancy(
        pcpus=claim.numa_topology.allowed,
        vcpus=tuple(vcpus),
        memory_mb={cell.id: cell.memory for cell in cells},
        pages={cell.id: {cell.pagesize: cell.pages} for cell in cells if cell.hugepages},
    )
    domain = DomainUsage(
        domain_uuid=claim.owner_id,
        name="vm",
        active=True,
        vcpus=claim.flavor.vcpus,
        memory_mb=claim.memory_mb,
        occupancy=occupancy,
    )
    return Change(cause="audit", at=NOON, domain_usages=(domain,))


def running_on(state, owner, *cpus):
    """The state with a recorded domain of one vCPU that floats on these CPUs."""
    sets = frozenset(cpus)
    domain = DomainUsage(
        domain_uuid=owner,
        name="vm",
        active=True,
        vcpus=1,
        memory_mb=1,
        occupancy=Occupancy(pcpus=sets, vcpus=(sets,)),
    )
    return state.fold(Change(cause="audit", at=NOON, domain_usages=(domain,)))


@pytest.mark.parametrize("specs", KINDS.values(), ids=KINDS)
def test_adopted_guest_has_the_assignment_of_one_that_was_built(specs):
    state, claim = built(host(PAGES, numa=PINNING), specs)
    ended = release_claims(state, call("release"), NOON, claim.owner_id, [claim.uuid])
    empty = running_on(state.fold(ended.change), uid(9), 0, 1)
    instance = Instance(uuid=claim.owner_id, flavor=claim.flavor, vm_state="active")
    asked = AdoptRequest(instance=instance, numa_topology=stated_cells(claim))
    (adopted,) = adopt_claim(empty, call("adopt_claim"), NOON, asked).claims
    assert adopted.numa_topology == claim.numa_topology
    assert adopted.usage == claim.usage


@pytest.mark.parametrize("same", [False, True], ids=["two sets", "one set"])
@pytest.mark.parametrize("specs", KINDS.values(), ids=KINDS)
def test_domain_of_an_adopted_guest_is_counted_once(specs, same):
    sets = replace(PINNING, cpu_shared_set=EVERY, cpu_dedicated_set=EVERY) if same else PINNING
    _, claim = built(host(PAGES, numa=sets), specs)
    orphan = host(PAGES, numa=sets).fold(running(claim))
    asked = AdoptRequest(
        instance=Instance(uuid=claim.owner_id, flavor=claim.flavor, vm_state="active"),
        numa_topology=stated_cells(claim),
    )
    state = orphan.fold(adopt_claim(orphan, call("adopt_claim"), NOON, asked).change)
    assert state.domain_usages and state.usage == claim.usage


@pytest.mark.parametrize("specs", KINDS.values(), ids=KINDS)
def test_claim_follows_the_configuration_and_keeps_its_own_cpus(specs):
    state, claim = built(host(PAGES, numa=PINNING), specs)
    assert follows_configuration(state)
    later = state.fold(Change(cause="policy", at=NOON, policy=Policy(numa=LATER)))
    after = later.fold(follow_configuration(later, call("follow"), NOON).change)
    after.check()
    assert follows_configuration(after)
    assert after.claims[claim.uuid].units == claim.units
    assert 1 not in after.claims[claim.uuid].numa_topology.allowed


def test_damaged_claim_does_not_follow():
    state, claim = built(host(numa=PINNING))
    damaged = replace(claim, suspect=DAMAGED)
    later = with_claims(replace(state, policy=Policy(numa=LATER)), [damaged])
    assert follows_configuration(later)


def test_cpu_on_which_a_guest_still_floats_is_not_given_to_another():
    state, claim = built(host(numa=PINNING))
    later = state.fold(Change(cause="policy", at=NOON, policy=Policy(numa=LATER)))
    after = later.fold(follow_configuration(later, call("follow"), NOON).change)
    after = running_on(after, claim.owner_id, 0, 1)
    _, pinned = built(after, PINNED)
    assert 1 not in pinned.numa_topology.taken


def test_domain_that_floats_keeps_no_other_from_shared_cpus():
    state = running_on(host(numa=PINNING, cpu_allocation_ratio=4), uid(9), 0, 1)
    (cell,) = built(state, {"hw:numa_nodes": "1"})[1].numa_topology.cells
    assert cell.shared_pcpus == {0, 1}


def test_vcpus_float_on_pinned_cpus_where_both_sets_are_the_same():
    same = replace(PINNING, cpu_shared_set=ONE_CELL.cpus, cpu_dedicated_set=ONE_CELL.cpus)
    state, _ = built(host(ONE_CELL, numa=same), PINNED)
    (cell,) = built(state, {"hw:numa_nodes": "1"})[1].numa_topology.cells
    assert cell.shared_pcpus == ONE_CELL.cpus
