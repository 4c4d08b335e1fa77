"""Views of a state that are derived from those of the state before it."""

import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.allocation.kept_views import host_for_new_owners, keep_views
from rtagent.model.change import Change
from rtagent.model.domain_usage import Occupancy
from rtagent.numa.host_cells import host_cells
from rtagent.pci.allocations import device_allocations
from tests.support.audits import check_views, views
from tests.support.device_states import addresses, aliased, device_host
from tests.support.hosts import NOON, PINNED, call, domain_usage, uid
from tests.support.pci_hosts import GPU_0, vf


def after(state, change):
    """Return the state after a change, with its views kept."""
    folded = state.fold(change)
    keep_views(state, folded, change)
    return folded


def built(state, aliases="", **asked):
    """Return the state after a build, with its views kept, and the claim."""
    granted = claims.instance_claim(state, call(), NOON, aliased(aliases, **asked))
    return after(state, granted.change), granted.claims[0]


def ended(state, claim):
    return after(state, claims.release_claim(state, call(), NOON, claim.uuid).change)


def using(state, owner, occupancy, active=True):
    """Return the state with a domain that has no claim, with its views kept."""
    usage = domain_usage(owner, active=active, occupancy=occupancy)
    return after(state, Change(cause="audit", at=NOON, domain_usages=(usage,)))


@pytest.fixture
def state():
    """A node of two cells with devices, of which all views are known."""
    made = device_host()
    views(made)
    return made


def test_views_equal_those_made_anew_after_each_change(state):
    state, pinned = built(state, extra_specs=PINNED)
    check_views(state)
    state, first = built(state, "gpu:1,vf:1", extra_specs=PINNED)
    check_views(state)
    busy = Occupancy(devices=frozenset({GPU_0, vf(1)}), pcpus=frozenset({3}))
    state = using(state, uid(77), busy)
    check_views(state)
    state = using(state, uid(77), Occupancy(devices=frozenset({vf(1)})), active=False)
    check_views(state)
    for claim in (first, pinned):
        state = ended(state, claim)
        check_views(state)


def test_the_cells_that_a_claim_does_not_touch_stay(state):
    before = host_cells(host_for_new_owners(state))
    state, claim = built(state, extra_specs=PINNED)
    (used,) = (cell.id for cell in claim.numa_topology.cells)
    kept = {cell.id: cell for cell in host_cells(host_for_new_owners(state))}
    assert [cell.id for cell in before if kept[cell.id] is not cell] == [used]


def test_a_guest_without_cells_and_devices_changes_no_view(state):
    later, _ = built(state)
    assert host_for_new_owners(later) is host_for_new_owners(state)
    assert device_allocations(later) is device_allocations(state)


def test_the_pools_that_a_claim_does_not_touch_stay(state):
    before = {pool.first_address: pool for pool in device_allocations(state).pools()}
    later, claim = built(state, "vf:1")
    for pool in device_allocations(later).pools():
        known = before.get(pool.first_address)
        assert (pool is known) == (pool.description["tags"]["dev_type"] == "type-PCI")
    assert addresses(claim) == [vf(0)]


def test_nothing_is_kept_after_a_change_of_the_policy(state):
    policy = replace(state.policy, numa=replace(state.policy.numa, cpu_dedicated_set=None))
    later = after(state, Change(cause="policy", at=NOON, policy=policy))
    check_views(later)
    assert not any(cell.dedicated for cell in host_cells(host_for_new_owners(later)))
