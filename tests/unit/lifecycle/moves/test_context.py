"""Which claim and which record a call concerns, when one move follows another, and records."""

import pytest

from rtagent.errors import ClaimConflict, IllegalTransition
from rtagent.lifecycle import moves
from rtagent.model.claim import EVACUATION
from rtagent.model.migration import DEST, SOURCE
from tests.support.hosts import uid
from tests.support.move_host import (
    GUEST,
    LARGE,
    SMALL,
    facts,
    in_transit,
    moved_and_back,
    source_and_dest,
)


def test_calls_of_an_older_move_leave_the_next_move_alone():
    source, _, first = in_transit()
    source.finish_revert(first)
    second = facts()
    source.start_move_out(second)
    assert source.finish_revert(first).state == "outgoing"  # as it is now
    with pytest.raises(IllegalTransition, match="is reverted"):
        source.start_move_out(first)
    source.drop(first)
    assert source.states == ["outgoing"]


def test_unknown_move_does_not_revert_the_move_of_another_migration():
    source, _, first = in_transit()
    with pytest.raises(IllegalTransition, match=f"is outgoing for migration {first.uuid}"):
        source.finish_revert(facts())
    with pytest.raises(IllegalTransition, match=f"is outgoing for migration {first.uuid}"):
        source.start_move_out(facts())
    source.drop(facts())
    assert source.states == ["outgoing"]


def test_claim_in_its_next_move_is_not_reverted_by_the_move_that_made_it():
    _, dest, first = in_transit()
    dest.finish_move(first)
    dest.start_move_out(facts())
    for verb in (dest.drop_at_dest, dest.drop, dest.finish_move):
        with pytest.raises(IllegalTransition, match="is outgoing for migration"):
            verb(first)


def test_migration_belongs_to_one_instance_and_one_type():
    source, _, migration = in_transit()
    with pytest.raises(ClaimConflict, match="is the resize of instance"):
        source.drop_at_source(migration, owner=uid())
    with pytest.raises(ClaimConflict, match="is the resize of instance"):
        source.drop_at_source(facts(EVACUATION, migration.uuid))


def test_each_node_records_its_role_and_its_claim():
    source, dest = source_and_dest()
    migration = facts(source_compute="h1", source_node="h1.example", old_flavor=SMALL)
    claim = dest.claim_move(migration, LARGE)
    source.start_move_out(migration)
    mine, theirs = dest.record(migration), source.record(migration)
    assert (mine.role, mine.claim_uuid, mine.instance_uuid) == (DEST, claim.uuid, GUEST)
    assert (theirs.role, theirs.claim_uuid) == (SOURCE, source.state.claims_of(GUEST)[0].uuid)
    assert (mine.dest_compute, mine.dest_node) == ("h2", "h2.example")
    assert mine.dest_host == "192.0.2.2"
    assert (mine.source_compute, mine.source_node) == ("h1", "h1.example")
    assert (mine.old_flavor, mine.new_flavor) == (SMALL, LARGE)
    assert (mine.node_uuid, theirs.node_uuid) == (dest.state.node.uuid, source.state.node.uuid)


def test_records_of_ended_moves_are_purged():
    source, dest, first = moved_and_back()
    everything = set(source.state.migrations)
    assert moves.purge(source.state, {"another"}, source.now) is None
    change = moves.purge(source.state, everything, source.now)
    assert change.migration_removals == (first.uuid,)
    # The record of the live claim's move stays, even if it has expired.
    assert len(source.state.fold(change).migrations) == 1
    gone = moves.purge(dest.state, everything, dest.now)
    assert len(gone.migration_removals) == 2  # the guest has no claim there any more
