"""A host on which CPUs have every use."""

from msgspec.structs import replace

from rtagent.model.domain_usage import Occupancy
from rtagent.model.node_state import NodeState
from rtagent.model.policy import NumaPolicy, Policy
from tests.support.hosts import host, uid, with_claims
from tests.support.numa_hosts import LARGE, cell, topology
from tests.support.pinned_claims import pinned_claim
from tests.unit.placement.values import domain

#: Two cells of four cores of two threads; CPU 15 is offline; 512 pages of 2 MiB on the first.
CELLS = topology(
    cell(0, huge={LARGE: 512}),
    replace(
        cell(1),
        cpus=frozenset(range(8, 15)),
        offline=frozenset({15}),
        siblings=(*cell(1).siblings[:3], frozenset({14})),
    ),
)
WEB, IDLE, FOREIGN_DOMAIN = uid(0xA), uid(0xB), uid(0xC)
CLAIMS = (
    pinned_claim(2, 3, owner=WEB, name="web-1"),
    pinned_claim(4, kept=(5,), owner=IDLE, memory_mb=512, pagesize=LARGE),
)
POLICY = NumaPolicy(
    cpu_shared_set=frozenset({0, 1}),
    cpu_dedicated_set=frozenset(range(2, 12)),
    reserved_huge_pages={0: {LARGE: 64}},
)


def pinned_host() -> NodeState:
    """CPUs 0-1 are shared, 2-3 are WEB's, 4 is IDLE's and 5 is left idle for it.

    9 is used by FOREIGN_DOMAIN, which also uses 0 and 3. 6-8, 10 and 11 are free, 12-14 the host's,
    15 is offline.
    """
    foreign = replace(
        domain(1, 64, FOREIGN_DOMAIN), name="odd", occupancy=Occupancy(pcpus=frozenset({0, 3, 9}))
    )
    made = replace(host(CELLS), policy=Policy(numa=POLICY))
    return with_claims(made, CLAIMS, (foreign,))
