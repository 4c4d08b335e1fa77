"""Usage of assignments and domains, and statistics of instances."""

import pytest
from msgspec.structs import replace

from rtagent.model import stats
from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.domain_usage import Occupancy
from rtagent.model.migration import Migration
from rtagent.model.usage import NumaUsage, assignment_usage
from tests.support.claims import pinned_claim
from tests.support.hosts import NODE, NOON, uid

ONE = Assignment(
    cells=(
        CellAssignment(
            id=0,
            memory=1024,
            cpuset=frozenset({2, 3}),
            shared_pcpus=frozenset({0, 1}),
            cpu_pinning={0: 4, 1: 6},
            cpuset_reserved=frozenset({8}),
            cpuset_kept=frozenset({5, 7, 9}),
            pagesize=2048,
        ),
        CellAssignment(id=2, memory=512),
    )
)


def test_usage_of_an_assignment_counts_every_part():
    assert assignment_usage(ONE) == NumaUsage(
        pinned={4: 1, 6: 1, 8: 1},
        kept={5: 1, 7: 1, 9: 1},
        vcpus={0: 2},
        memory_mb={0: 1024, 2: 512},
        pages={(0, 2048): 512},
    )


def test_larger_takes_the_maximum_of_each_count():
    seen = Occupancy(
        pcpus=frozenset({4, 5}), memory_mb={0: 2048}, pages={0: {2048: 100, 1048576: 1}}
    )
    larger = assignment_usage(ONE).larger(seen.usage)
    assert larger.pinned == {4: 1, 5: 1, 6: 1, 8: 1}
    assert larger.memory_mb == {0: 2048, 2: 512}
    assert larger.pages == {(0, 2048): 512, (0, 1048576): 1}


# --- statistics: which instances are on a host ---

OWNER, MOVE, OTHER_MOVE = uid(), uid(), uid()


def claim(state, migration_uuid=None, kind="build"):
    found = pinned_claim(1, owner=OWNER)
    return replace(found, state=state, migration_uuid=migration_uuid, kind=kind)


def record(migration_type, status):
    return Migration(
        uuid=MOVE,
        node_uuid=NODE.uuid,
        role="source",
        instance_uuid=OWNER,
        migration_type=migration_type,
        status=status,
        created_at=NOON,
        updated_at=NOON,
    )


@pytest.mark.parametrize(
    ("claims", "here"),
    [
        ([claim("building")], True),
        ([claim("active")], True),
        ([claim("incoming", MOVE)], False),
        ([claim("outgoing", MOVE)], False),
        ([claim("outgoing", MOVE), claim("incoming", MOVE, "resize")], True),
        ([claim("outgoing", MOVE), claim("incoming", OTHER_MOVE, "resize")], False),
        ([claim("outgoing", MOVE), claim("active", MOVE, "resize")], True),
    ],
)
def test_claims_of_an_instance_that_is_on_the_host(claims, here):
    assert stats.is_here(claims, {}) is here
    attached = [*claims, claim("active", kind="attach")]
    assert stats.keys(attached, {}).count("num_instances") == here


@pytest.mark.parametrize(
    ("migration_type", "status", "here"),
    [
        ("live-migration", "running", True),
        ("live-migration", "completed", False),
        ("resize", "migrating", False),
        ("resize", "reverted", True),
    ],
)
def test_outgoing_guest_is_at_its_source_during_a_live_migration_and_after_its_return(
    migration_type, status, here
):
    records = {MOVE: record(migration_type, status)}
    assert stats.is_here([claim("outgoing", MOVE)], records) is here
