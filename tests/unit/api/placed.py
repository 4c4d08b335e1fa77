"""A host with all that a map can show."""

from msgspec.structs import replace

from rtagent.model.host import HostState, restore
from rtagent.model.numa_policy import NumaPolicy
from rtagent.model.numa_usage import Occupancy
from rtagent.model.policy import Policy
from tests.builders import host, uid
from tests.numa_hosts import LARGE, cell, topology
from tests.unit.model.placed import pinned_claim
from tests.unit.placement.values import domain

#: Two cells of four cores of two threads; CPU 15 is offline; 512 pages of 2 MiB on the first.
THERE = topology(
    cell(0, huge={LARGE: 512}),
    replace(
        cell(1),
        cpus=frozenset(range(8, 15)),
        offline=frozenset({15}),
        siblings=(*cell(1).siblings[:3], frozenset({14})),
    ),
)
WEB, IDLE, STRANGER = uid(0xA), uid(0xB), uid(0xC)
CLAIMS = (
    pinned_claim(2, 3, owner=WEB, name="web-1"),
    pinned_claim(4, kept=(5,), owner=IDLE, memory_mb=512, pagesize=LARGE),
)
POLICY = NumaPolicy(
    cpu_shared_set=frozenset({0, 1}),
    cpu_dedicated_set=frozenset(range(2, 12)),
    reserved_huge_pages={0: {LARGE: 64}},
)


def mapped() -> HostState:
    """0-1 shared, 2-3 of WEB, 4 of IDLE which keeps 5, 6-8 and 10-11 free, 9 of STRANGER, who is on
    3, too; 12-14 the host's."""
    stranger = replace(
        domain(1, 64, STRANGER), name="odd", occupancy=Occupancy(pcpus=frozenset({0, 3, 9}))
    )
    made = replace(host(THERE), policy=Policy(numa=POLICY))
    return restore(made, CLAIMS, (stranger,), 1)
