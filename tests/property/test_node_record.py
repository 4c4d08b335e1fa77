"""A scheduler that computes with the node's record grants no more than the agent.

The scheduler is Nova's, for guests of one cell: its checks of CPUs, pages and memory.
"""

from fractions import Fraction

from hypothesis import given, settings
from msgspec.structs import replace

from rtagent.numa.candidates import candidate_matrix
from rtagent.numa.host_cells import cell_capacities
from rtagent.state.compute_node import numa_topology
from tests.property.numa_oracle import page_sizes
from tests.property.test_numa_fit import LIMITS, guests, hosts
from tests.support import hosts as nodes


def record_of(host):
    state = nodes.host(host.topology, numa=host.policy)
    record = numa_topology(replace(state, usage=replace(state.usage, numa=host.usage)))
    assert record is not None
    return record["cells"]


def schedulable(cell, guest, limits):
    """Return whether Nova's scheduler places the guest cell there."""
    return (
        pages_suffice(cell, guest)
        and guest.pcpus + guest.reserved <= len(set(cell["pcpuset"]) - set(cell["pinned_cpus"]))
        and guest.vcpus <= len(cell["cpuset"])
        and (guest.cpu_policy == "dedicated" or within_limits(cell, guest, limits))
    )


def within_limits(cell, guest, limits):
    vcpus, memory = cell["cpu_usage"] + guest.vcpus, cell["memory_usage"] + guest.memory
    return vcpus <= len(cell["cpuset"]) * Fraction(limits.cpu_allocation_ratio) and memory <= cell[
        "memory"
    ] * Fraction(limits.ram_allocation_ratio)


def pages_suffice(cell, guest):
    pools = {page["size_kb"]: page for page in cell["mempages"]}
    if guest.pagesize is not None:
        sizes = page_sizes(guest.pagesize, pools)
        return any(fits(pools[size], guest.memory, free=True) for size in sizes if size in pools)
    if pools:
        return fits(pools[min(pools)], guest.memory, free=guest.cpu_policy != "shared")
    used = cell["memory_usage"] if guest.cpu_policy != "shared" else 0
    return guest.memory <= cell["memory"] - used


def fits(page, memory_mb, free):
    number, rest = divmod(memory_mb * 1024, page["size_kb"])
    taken = page["used"] + page["reserved"] if free else 0
    return not rest and number <= page["total"] - taken


@settings(max_examples=5 * settings.default.max_examples)
@given(hosts(), guests(), LIMITS)
def test_scheduler_grants_no_more_than_the_agent(host, guest, limits):
    capacities, record = cell_capacities(host.topology, host.usage, host.policy), record_of(host)
    required = [replace(each, cpu_thread_policy="prefer") for each in guest.by_cell()]
    for each, row in zip(required, candidate_matrix(required, capacities, limits), strict=True):
        for cell in record:
            if schedulable(cell, each, limits):
                assert cell["id"] in row.candidates
