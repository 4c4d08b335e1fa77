"""Statistics: which instances are on a host."""

import pytest
from msgspec.structs import replace

from rtagent.model import stats
from rtagent.model.migration import Migration
from tests.support.claims import pinned_claim
from tests.support.hosts import NODE, NOON, uid

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
        ([], False),
        ([claim("building")], True),
        ([claim("active")], True),
        ([claim("incoming", MOVE)], False),
        ([claim("outgoing", MOVE)], False),
        ([claim("outgoing", MOVE), claim("incoming", MOVE, "resize")], True),
        ([claim("outgoing", MOVE), claim("incoming", OTHER_MOVE, "resize")], False),
        ([claim("outgoing", MOVE), claim("active", MOVE, "resize")], True),
        ([claim("outgoing", MOVE), claim("active", kind="attach")], False),
    ],
)
def test_claims_of_an_instance_that_is_on_the_host(claims, here):
    assert stats.is_here(claims, {}) is here
    assert ("num_instances" in stats.keys(claims, {})) is here


@pytest.mark.parametrize(
    ("migration_type", "status", "here"),
    [
        ("live-migration", "running", True),
        ("live-migration", "completed", False),
        ("resize", "migrating", False),
        ("resize", "reverted", True),
        ("migration", "migrating", False),
        ("migration", "error", True),
    ],
)
def test_outgoing_guest_is_at_its_source_during_a_live_migration_and_after_its_return(
    migration_type, status, here
):
    records = {MOVE: record(migration_type, status)}
    assert stats.is_here([claim("outgoing", MOVE)], records) is here


def test_instance_counts_once_for_any_number_of_claims():
    claims = [claim("active"), claim("active", kind="attach")]
    assert sorted(stats.keys(claims, {})) == [
        "num_instances",
        "num_os_type_None",
        "num_proj_None",
        "num_task_None",
        "num_vm_None",
    ]
