"""What Placement shall show of a host."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rtagent import amounts
from rtagent.model.change import Change
from rtagent.model.policy import Policy
from rtagent.model.topology import Topology
from rtagent.placement import tree
from rtagent.placement.tree import concerns
from tests.builders import NODE, NOON, TOPOLOGY, host, uid
from tests.unit.placement.values import claim, domain, record, state

GB = 1024


def root(host_state, disabled=False, hypervisor_up=True):
    built = tree.build(host_state, disabled, hypervisor_up)
    assert built is not None
    return built.providers[0]


def test_the_root_is_the_node():
    built = tree.build(state(revision=7), disabled=False, hypervisor_up=True)
    assert built is not None
    assert built.revision == 7
    (provider,) = built.providers
    assert (provider.uuid, provider.name, provider.parent) == (NODE.uuid, "cn1.example", None)


def test_an_empty_host_offers_all_of_it():
    assert root(state()).inventories == {
        "VCPU": record(8),
        "MEMORY_MB": record(16384),
        "DISK_GB": record(100),
    }


def test_nothing_is_said_of_a_host_that_is_not_known():
    assert tree.build(host(topology=None), disabled=False, hypervisor_up=True) is None


def test_totals_are_rounded_down_and_reserved_up():
    odd = replace(state(reserved_disk_mb=1), topology=replace(TOPOLOGY, disk_mb=10 * GB - 1))
    assert root(odd).inventories["DISK_GB"] == record(9, reserved=1)


def test_zero_totals_are_left_out():
    bare = replace(state(), topology=replace(TOPOLOGY, disk_mb=GB - 1))
    assert set(root(bare).inventories) == {"VCPU", "MEMORY_MB"}


def test_policy_is_shown():
    shown = root(
        state(
            reserved_cpus=1,
            reserved_memory_mb=512,
            cpu_allocation_ratio=4.0,
            ram_allocation_ratio=1.5,
            disk_allocation_ratio=1.1,
        )
    )
    assert shown.inventories == {
        "VCPU": record(8, reserved=1, ratio=4.0),
        "MEMORY_MB": record(16384, reserved=512, ratio=1.5),
        "DISK_GB": record(100, ratio=1.1),
    }


def test_claims_are_not_reserved_since_allocations_count_them():
    assert root(state(claims=(claim(2, 2048, GB),))) == root(state())


def test_foreign_domains_are_reserved_vcpus_by_the_ratio():
    shown = root(state(holdings=(domain(5, 1000),), cpu_allocation_ratio=4.0))
    assert shown.inventories["VCPU"].reserved == 2
    assert shown.inventories["MEMORY_MB"].reserved == 1000


def test_memory_in_use_is_reserved_whole_and_more_where_the_ratio_is_below_one():
    generous = root(state(holdings=(domain(1, 1000),), ram_allocation_ratio=2.0))
    frugal = root(state(holdings=(domain(1, 1000),), ram_allocation_ratio=0.5))
    assert generous.inventories["MEMORY_MB"].reserved == 1000
    assert frugal.inventories["MEMORY_MB"].reserved == 2000


def test_domains_that_are_shut_off_use_nothing():
    assert root(state(holdings=(domain(4, 4096, active=False),))) == root(state())


def test_drift_is_reserved_by_what_it_is_above_the_claim():
    owner = uid()
    drifted = state(claims=(claim(2, 2048, 0, owner),), holdings=(domain(4, 1024, owner),))
    assert root(drifted).inventories["VCPU"].reserved == 2
    assert root(drifted).inventories["MEMORY_MB"].reserved == 0


def test_no_more_is_reserved_than_there_is():
    assert root(state(holdings=(domain(99, 1),))).inventories["VCPU"] == record(8, reserved=8)


def test_a_ratio_has_the_digits_that_every_database_keeps():
    shown = root(state(ram_allocation_ratio=Decimal("1.33333666")))
    assert shown.inventories["MEMORY_MB"].allocation_ratio == 1.33333


@pytest.mark.parametrize(
    ("disabled", "hypervisor_up", "out"),
    [(False, True, False), (True, True, True), (False, False, True), (True, False, True)],
)
def test_traits(disabled, hypervisor_up, out):
    able = replace(state(), topology=replace(TOPOLOGY, traits=frozenset({"HW_CPU_X86_AVX"})))
    expected = {"HW_CPU_X86_AVX", "COMPUTE_NODE"} | ({"COMPUTE_STATUS_DISABLED"} if out else set())
    assert root(able, disabled, hypervisor_up).traits == expected


# -- wake-ups -------------------------------------------------------------------------------------


def changed(before, **parts):
    change = Change(cause="test", at=NOON, **parts)
    return before.fold(change), change


def test_a_plain_claim_does_not_concern_placement():
    after, change = changed(state(), puts=(claim(1, 1, 1),))
    assert not concerns(after, [change])
    assert root(after) == root(state())


def test_a_reloaded_state_does():
    assert concerns(state(), [])


@pytest.mark.parametrize(
    "parts",
    [
        {"topology": replace(TOPOLOGY, memory_mb=1)},
        {"policy": Policy(reserved_cpus=3)},
        {"holdings": (domain(1, 1),)},
        {"unholdings": (uid(5),)},
        {"ends": (claim(1, 1, 1, owner=uid(5)),)},
        {"puts": (claim(1, 1, 1, owner=uid(5)),)},
    ],
    ids=lambda parts: next(iter(parts)),
)
def test_what_changes_the_tree_does(parts):
    # uid(5) has a domain that nobody claimed, or that uses more than was claimed.
    ends = parts.get("ends", ())
    before = state(claims=ends, holdings=(domain(2, 2, owner=uid(5)),))
    after, change = changed(before, **parts)
    assert concerns(after, [changed(before)[1], change])


# -- Placement is never more generous than the agent ----------------------------------------------

ratios = st.one_of(
    st.sampled_from([Decimal("0.1"), Decimal(1), Decimal("1.1"), Decimal("1.15"), Decimal(16)]),
    st.decimals(Decimal("0.001"), Decimal(100), allow_nan=False, places=9),
)
policies = st.builds(
    Policy,
    reserved_cpus=st.integers(0, 10),
    reserved_memory_mb=st.integers(0, 5000),
    reserved_disk_mb=st.integers(0, 50_000),
    cpu_allocation_ratio=ratios,
    ram_allocation_ratio=ratios,
    disk_allocation_ratio=ratios,
)
topologies = st.builds(
    Topology,
    cpus=st.integers(0, 300).map(lambda n: frozenset(range(n))),
    memory_mb=st.integers(0, 10_000_000),
    disk_mb=st.integers(0, 100_000_000),
)
owners = st.integers(1, 4).map(uid)
claims_held = st.lists(
    st.builds(claim, st.integers(0, 20), st.integers(0, 9000), st.integers(0, 90_000), owners),
    max_size=4,
    unique_by=lambda c: c.owner_id,
)
domains_seen = st.lists(
    st.builds(domain, st.integers(0, 20), st.integers(0, 9000), owners, st.booleans()),
    max_size=4,
    unique_by=lambda d: d.domain_uuid,
)


def most_that_placement_grants(provider, resource, used):
    """Placement's own rule, with its floating-point numbers."""
    if resource not in provider.inventories:
        return 0
    inventory = provider.inventories[resource]
    capacity = (inventory.total - inventory.reserved) * inventory.allocation_ratio
    return max(0, min(inventory.max_unit, math.floor(capacity) - used))


@given(topologies, policies, claims_held, domains_seen)
def test_what_placement_grants_the_agent_grants(topology, policy, claims, domains):
    held = replace(state(tuple(claims), tuple(domains)), topology=topology, policy=policy)
    provider = root(held)
    asked = claim(
        most_that_placement_grants(provider, "VCPU", sum(c.vcpus for c in claims)),
        most_that_placement_grants(provider, "MEMORY_MB", sum(c.memory_mb for c in claims)),
        GB
        * most_that_placement_grants(
            provider, "DISK_GB", sum(math.ceil(c.disk_mb / GB) for c in claims)
        ),
        owner=uid(9),
    )
    assert list(amounts.shortfalls(held, asked)) == []


@given(topologies, policies, domains_seen)
def test_placement_takes_every_record(topology, policy, domains):
    held = replace(state((), tuple(domains)), topology=topology, policy=policy)
    for inventory in root(held).inventories.values():
        assert 0 <= inventory.reserved <= inventory.total
        assert 1 <= inventory.max_unit <= inventory.total < 2**31
        assert inventory.allocation_ratio > 0
