"""The tree of providers of a host."""

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rtagent.allocation import capacity
from rtagent.claims import drain, undrain
from rtagent.model.change import Change
from rtagent.model.domain_usage import Occupancy
from rtagent.model.policy import NumaPolicy, PlacementPolicy, Policy
from rtagent.model.topology import Topology
from rtagent.placement import tree
from rtagent.placement.tree import affects_tree
from rtagent.state.compute_node import compute_node
from tests.support.claims import pinned_claim
from tests.support.hosts import NOON, TOPOLOGY, call, host, uid, with_claims
from tests.support.numa_hosts import NO_SMT
from tests.unit.placement.values import claim, domain, record, state

GB = 1024


def root(host_state, disabled=False, hypervisor_up=True):
    built = tree.build(host_state, disabled, hypervisor_up)
    assert built is not None
    return built.providers[0]


def test_totals_are_rounded_down_and_reserved_quantities_up():
    odd = replace(state(reserved_disk_mb=1), topology=replace(TOPOLOGY, disk_mb=10 * GB - 1))
    assert root(odd).inventories["DISK_GB"] == record(9, reserved=1)


@pytest.mark.parametrize(
    ("held", "vcpus", "memory_mb"),
    [
        (state((), (domain(5, 1000),), cpu_allocation_ratio=4.0), 2, 1000),
        (state((), (domain(1, 1000),), ram_allocation_ratio=2.0), 1, 1000),
        (state((), (domain(1, 1000),), ram_allocation_ratio=0.5), 1, 2000),
        (state((), (domain(4, 4096, active=False),)), 0, 0),
        (state((), (domain(99, 1),)), 8, 1),  # Placement refuses more than the total
        (state((claim(2, 2048, 0, uid(1)),), (domain(4, 1024, uid(1)),)), 2, 0),
    ],
)
def test_what_is_in_use_beyond_claims_is_reserved(held, vcpus, memory_mb):
    found = root(held).inventories
    assert (found["VCPU"].reserved, found["MEMORY_MB"].reserved) == (vcpus, memory_mb)


def test_what_a_domain_without_a_claim_has_been_allocated_is_not_reserved():
    orphan, other = domain(4, 1000), domain(1, 500)
    held = state(domain_usages=(orphan, other))
    unclaimed = {orphan.domain_uuid: {"VCPU": 3, "MEMORY_MB": 2000, "CUSTOM_GOLD": 1}}
    inventories = tree.build(held, False, True, unclaimed).providers[0].inventories
    assert (inventories["VCPU"].reserved, inventories["MEMORY_MB"].reserved) == (2, 500)


def test_reserved_leaves_room_for_what_is_allocated_without_a_claim():
    held = state(domain_usages=(domain(8, 64),))
    found = tree.build(held, False, True, {uid(7): {"VCPU": 3}}).providers[0].inventories
    assert found["VCPU"].reserved == 5


def test_a_claim_on_a_full_host_affects_the_tree():
    """What other domains use is reserved again when the claim ends."""
    held = claim(4, 64, 0)
    before, made = changed(state(domain_usages=(domain(8, 64),)), puts=(held,))
    after, ended = changed(before, ends=(held,))
    assert [root(each).inventories["VCPU"].reserved for each in (before, after)] == [4, 8]
    assert affects_tree(before, [made]) and affects_tree(after, [ended])


@pytest.mark.parametrize(
    ("disabled", "hypervisor_up", "has_trait"),
    [(False, True, False), (True, True, True), (False, False, True), (True, False, True)],
)
def test_traits_of_the_root(disabled, hypervisor_up, has_trait):
    able = replace(state(), topology=replace(TOPOLOGY, traits=frozenset({"HW_CPU_X86_AVX"})))
    expected = {"HW_CPU_X86_AVX", "COMPUTE_NODE", "OWNER_NOVA"} | (
        {"COMPUTE_STATUS_DISABLED"} if has_trait else set()
    )
    assert root(able, disabled, hypervisor_up).traits == expected


def test_traits_of_the_hypervisor_are_those_of_this_agent_alone():
    exclusive = root(state()).exclusive.traits
    names = {"COMPUTE_NODE", "COMPUTE_REMOTE_MANAGED_PORTS", "COMPUTE_IMAGE_TYPE_RAW"}
    assert names | {"HW_CPU_X86_AVX", "HW_ARCH_X86_64"} <= exclusive
    assert exclusive.isdisjoint({"HW_NIC_SRIOV", "STORAGE_DISK_SSD", "OWNER_NOVA", "CUSTOM_GOLD"})


def test_withheld_traits_are_those_of_the_hypervisor():
    traits = frozenset({"COMPUTE_TRUSTED_CERTS", "COMPUTE_RESCUE_BFV"})
    policy = PlacementPolicy(withheld_traits=traits - {"COMPUTE_RESCUE_BFV"} | {"COMPUTE_NODE"})
    there = replace(TOPOLOGY, traits=traits)
    able = replace(state(), topology=there, policy=Policy(placement=policy))
    assert root(able).traits == {"COMPUTE_RESCUE_BFV", "COMPUTE_NODE", "OWNER_NOVA"}


def test_memory_in_files_is_the_total_and_a_trait():
    numa = NumaPolicy(file_backed_memory_mb=1_000_000)
    provider = root(replace(state(), policy=Policy(numa=numa)))
    memory = provider.inventories["MEMORY_MB"]
    assert (memory.total, memory.max_unit, memory.reserved) == (1_000_000, 1_000_000, 0)
    assert memory.allocation_ratio == 1.0
    assert "COMPUTE_MEM_BACKING_FILE" in provider.traits
    assert "COMPUTE_MEM_BACKING_FILE" not in root(state()).traits


# -- dedicated CPUs -------------------------------------------------------------------------------


def pinning(dedicated, domain_usages=(), shared=None):
    """Return a host of CPUs 0-3 and 4-7 with these sets."""
    shared = None if shared is None else frozenset(shared)
    sets = NumaPolicy(cpu_dedicated_set=frozenset(dedicated), cpu_shared_set=shared)
    made = replace(host(), topology=NO_SMT, policy=Policy(numa=sets))
    return with_claims(made, (), domain_usages)


def pinned_domain(*vcpus, floating=0, emulator=()):
    """Return a domain with these sets of host CPUs for its vCPUs, and more vCPUs without any."""
    sets = tuple(map(frozenset, vcpus))
    occupancy = Occupancy(pcpus=frozenset(emulator).union(*sets), vcpus=sets)
    return replace(domain(len(sets) + floating, 64), occupancy=occupancy)


def pcpu(host_state):
    return root(host_state).inventories["PCPU"]


@pytest.mark.parametrize(
    ("foreign", "pcpus", "vcpus"),
    [
        (pinned_domain({4}, {5}), 2, 0),
        (pinned_domain({4}, {5}, floating=2), 2, 2),
        (pinned_domain({4}, {5}, {0, 1}, {0, 1}), 2, 2),  # a mixed guest of Nova
        (pinned_domain({4}, floating=1, emulator={6}), 2, 1),
        (pinned_domain({4, 5}, {4, 5}, {4, 5}), 2, 0),
        (pinned_domain({3, 4}), 1, 1),
    ],
)
def test_a_foreign_vcpu_is_reserved_where_it_runs_and_once(foreign, pcpus, vcpus):
    held = pinning({4, 5, 6}, domain_usages=[foreign], shared={0, 1, 2})
    found = root(held).inventories
    assert (found["PCPU"].reserved, found["VCPU"].reserved) == (pcpus, vcpus)
    assert compute_node(held)["vcpus_used"] == pcpus + vcpus


# -- changes that affect the tree -----------------------------------------------------------------


def changed(before, **parts):
    change = Change(cause="test", at=NOON, **parts)
    return before.fold(change), change


def test_a_pinned_claim_does_not_affect_the_tree():
    after, change = changed(pinning({4, 5}), puts=(pinned_claim(4),))
    assert not affects_tree(after, [change])
    assert root(after) == root(pinning({4, 5}))


@pytest.mark.parametrize("foreign", [(), (pinned_domain(floating=1, emulator={4}),)])
def test_a_claim_with_idle_or_shared_cpus_affects_the_tree(foreign):
    pinned = pinned_claim(4, kept=() if foreign else (5,))
    before = pinning({4, 5}, domain_usages=foreign)
    during, made = changed(before, puts=(pinned,))
    after, ended = changed(during, ends=(pinned,))
    assert affects_tree(during, [made])
    assert affects_tree(after, [ended])
    assert pcpu(during) != pcpu(after)


@pytest.mark.parametrize(
    "parts",
    [
        {"topology": replace(TOPOLOGY, memory_mb=1)},
        {"policy": Policy(reserved_cpus=3)},
        {"domain_usages": (domain(1, 1),)},
        {"domain_usage_removals": (uid(5),)},
        {"ends": (claim(1, 1, 1, owner=uid(5)),)},
        {"puts": (claim(1, 1, 1, owner=uid(5)),)},
    ],
    ids=lambda parts: next(iter(parts)),
)
def test_other_changes_of_the_host_affect_the_tree(parts):
    # uid(5) has a foreign domain, or one that uses more than its claim.
    ends = parts.get("ends", ())
    before = state(claims=ends, domain_usages=(domain(2, 2, owner=uid(5)),))
    after, change = changed(before, **parts)
    assert affects_tree(after, [changed(before)[1], change])


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
    """Return the quantity by Placement's own rule, in floating-point numbers."""
    if resource not in provider.inventories:
        return 0
    inventory = provider.inventories[resource]
    capacity = (inventory.total - inventory.reserved) * inventory.allocation_ratio
    return max(0, min(inventory.max_unit, math.floor(capacity) - used))


@given(topologies, policies, claims_held, domains_seen)
def test_the_agent_grants_what_placement_grants(topology, policy, claims, domains):
    """On a host that is full, Placement may have less than one unit more than the agent."""
    held = replace(state(tuple(claims), tuple(domains)), topology=topology, policy=policy)
    provider = root(held)
    wanted = claim(
        most_that_placement_grants(provider, "VCPU", sum(c.vcpus for c in claims)),
        most_that_placement_grants(provider, "MEMORY_MB", sum(c.memory_mb for c in claims)),
        GB
        * most_that_placement_grants(
            provider, "DISK_GB", sum(math.ceil(c.disk_mb / GB) for c in claims)
        ),
        owner=uid(9),
    )
    for reason in capacity.shortfalls(held, wanted.owner_id, wanted.usage):
        unit = GB if reason.resource == "DISK_GB" else 1
        assert reason.requested < provider.inventories[reason.resource].allocation_ratio * unit


@given(topologies, policies, claims_held, domains_seen)
def test_what_is_reserved_leaves_enough_for_what_claims_allocate(topology, policy, claims, domains):
    claims = [replace(each, disk_mb=each.disk_mb // GB * GB) for each in claims]
    held = replace(state(tuple(claims), tuple(domains)), topology=topology, policy=policy)
    used = {"VCPU": sum(c.vcpus for c in claims), "MEMORY_MB": sum(c.memory_mb for c in claims)}
    used["DISK_GB"] = sum(c.disk_mb // GB for c in claims)
    for name, inventory in root(held).inventories.items():
        left = (inventory.total - inventory.reserved) * inventory.allocation_ratio
        assert used[name] <= left or not inventory.reserved


def test_begin_and_end_of_a_drain_affect_the_tree():
    begun = drain(state(), call(), NOON, "new disks", None).change
    drained = state().fold(begun)
    assert affects_tree(drained, [begun])
    ended = undrain(drained, call(), NOON).change
    assert affects_tree(drained.fold(ended), [ended])
