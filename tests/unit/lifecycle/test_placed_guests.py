"""What claims record follows from the host's configuration: assignments, and providers."""

import pytest
from msgspec.structs import replace

from rtagent.claims import instance_claim
from rtagent.lifecycle.placed_guests import (
    claims_with_new_providers,
    follow_configuration,
    follows_configuration,
)
from rtagent.model.assignment import AssignedQuantity
from rtagent.model.change import Change
from rtagent.model.claim import DAMAGED
from rtagent.model.policy import Policy
from rtagent.placement.adoption import Adoption
from tests.support import device_states
from tests.support.device_states import VGPU_TYPE, device_host, policy
from tests.support.hosts import NODE, NOON, PINNED, PINNING, call, host, request, uid, with_claims
from tests.support.numa_hosts import LARGE, PAGES
from tests.support.pci_hosts import GPU_0, GPU_1, SPECS, gpu, record

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
#: CPU 1 was a shared one, and is now a dedicated one.
LATER = replace(PINNING, cpu_shared_set=frozenset({0}), cpu_dedicated_set=frozenset(range(1, 8)))


def built(state, specs=None):
    """The state after a build, and the claim."""
    asked = request(2, 512, extra_specs=specs or {})
    granted = instance_claim(state, call(), NOON, asked, active=True)
    return state.fold(granted.change), granted.claims[0]


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


ADOPTED = Adoption(node=NODE.uuid, children={"pci_0000_08_00_0": uid(60), "0000:88:00.0": uid(61)})


def claimed():
    """Return a host with a claim of a virtual GPU, and one of a whole GPU."""
    devices = record([gpu(GPU_0, 0, vgpus=4), gpu(GPU_1, 1)])
    pci = policy(SPECS, mdev_types=(VGPU_TYPE,), report_in_placement=True)
    specs = {"resources:VGPU": "1"}
    state, one = device_states.built(device_host(devices, pci=pci), extra_specs=specs)
    state, two = device_states.built(state, "gpu:1")
    return state, one, two


def test_claims_that_name_them_already_do_not_change():
    state, *_ = claimed()
    assert claims_with_new_providers(state, state.policy, NOON) == ()


def test_every_kind_of_unit_names_its_adopted_provider():
    state, one, two = claimed()
    children = {"files": uid(62), **ADOPTED.children}
    quantity = AssignedQuantity(
        provider=uid(1), suffix="files", resource_class="CUSTOM_FAST", quantity=2
    )
    one = replace(one, quantities=(quantity,))
    state = replace(state, claims=state.claims.set(one.uuid, one))
    policy = replace(ADOPTED, children=children).applied_to(state.policy)
    new = {claim.uuid: claim for claim in claims_with_new_providers(state, policy, NOON)}
    assert [unit.provider for unit in new[one.uuid].resources] == [uid(60)]
    assert [unit.provider for unit in new[one.uuid].quantities] == [uid(62)]
    assert [device.provider for device in new[two.uuid].pci] == [uid(61)]


def test_a_quarantined_claim_does_not_change():
    state, one, two = claimed()
    damaged = replace(one, suspect=f"{DAMAGED}a field")
    state = replace(state, claims=state.claims.set(one.uuid, damaged))
    new = claims_with_new_providers(state, ADOPTED.applied_to(state.policy), NOON)
    assert [claim.uuid for claim in new] == [two.uuid]


def test_damaged_claim_does_not_follow():
    state, claim = built(host(numa=PINNING))
    damaged = replace(claim, suspect=DAMAGED)
    later = with_claims(replace(state, policy=Policy(numa=LATER)), [damaged])
    assert follows_configuration(later)
