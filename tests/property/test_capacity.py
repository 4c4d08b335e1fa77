"""A plain request fits by `Capacity` if, and only if, the agent's own rule finds no shortfall, and
its reasons are those of that rule."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st
from immutables import Map
from msgspec.structs import replace

from rtagent.allocation.capacity import capacity_of, shortfalls
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.node_state import NodeState
from rtagent.model.policy import NumaPolicy, PlacementPolicy, Policy
from rtagent.model.topology import Topology
from rtagent.model.usage import Usage
from rtagent.scheduler.filtered import full
from rtagent.scheduler.host_state import with_capacity
from tests.support.host_states import host_state
from tests.support.hosts import NODE, uid

HOST = host_state()
OWNER = uid()
ratios = st.decimals(Decimal("0.1"), Decimal("3"), places=2)
small = st.integers(0, 12)
cpu_sets = st.none() | st.frozensets(st.integers(0, 9), max_size=6)
usages = st.builds(
    Usage,
    vcpus=st.integers(0, 20),
    pcpus=st.integers(0, 8),
    memory_mb=st.integers(0, 20),
    disk_mb=st.integers(0, 20),
)
policies = st.builds(
    Policy,
    reserved_cpus=st.integers(0, 4),
    reserved_memory_mb=st.integers(0, 4),
    reserved_disk_mb=st.integers(0, 4),
    cpu_allocation_ratio=ratios,
    ram_allocation_ratio=ratios,
    disk_allocation_ratio=ratios,
    same_host_resize_reuse=st.booleans(),
    judge_amounts=st.booleans(),
    numa=st.builds(
        NumaPolicy,
        cpu_shared_set=cpu_sets,
        cpu_dedicated_set=cpu_sets,
        file_backed_memory_mb=st.sampled_from([0, 7]),
    ),
    placement=st.builds(PlacementPolicy, disk_provider=st.sampled_from([None, uid(7)])),
)
topologies = st.builds(
    Topology, cpus=st.frozensets(st.integers(0, 7)), memory_mb=small, disk_mb=small
)


def with_idle_domain(state: NodeState) -> NodeState:
    idle = DomainUsage(domain_uuid=OWNER, name="idle", active=False, vcpus=0, memory_mb=0)
    return replace(state, domain_usages=Map({OWNER: idle}))


@given(policies, topologies, usages, usages)
def test_capacity_is_the_agents_rule(policy, topology, used, wanted):
    state = NodeState(node=NODE, policy=policy, topology=topology, usage=used)
    seen = replace(HOST, capacity=capacity_of(state), replica=state)
    asked = wanted.vcpus, wanted.pcpus, wanted.memory_mb, wanted.disk_mb
    # An owner with a domain that uses nothing, so that each resource is judged by itself.
    reasons = list(shortfalls(with_idle_domain(state), OWNER, wanted))
    assert seen.fits(*asked) == (not reasons)
    assert [*full(seen, wanted).rejection.reasons] == reasons
    assert seen.fits(*asked) == (not list(shortfalls(state, OWNER, wanted)))
    assert with_capacity([seen], *asked) == ([seen] if seen.fits(*asked) else [])


@given(policies, topologies, usages)
def test_exactly_what_is_free_fits(policy, topology, used):
    state = NodeState(node=NODE, policy=policy, topology=topology, usage=used)
    free, judged = capacity_of(state), policy.judge_amounts
    wanted = Usage(
        vcpus=max(0, min(free.free_vcpus, free.total_vcpus)),
        memory_mb=max(0, min(free.free_memory_mb, free.total_memory_mb)),
        disk_mb=max(0, min(free.free_disk_mb, free.total_disk_mb)),
    )
    assert free.fits(wanted.vcpus, 0, wanted.memory_mb, wanted.disk_mb)
    more = replace(wanted, memory_mb=wanted.memory_mb + 1)
    fits = free.fits(more.vcpus, 0, more.memory_mb, more.disk_mb, judged=judged)
    assert fits is not judged
    assert bool(list(shortfalls(state, OWNER, more))) is judged
