"""Records of moves: their content, and when they are purged."""

from rtagent.lifecycle import moves
from rtagent.model.migration import DEST, SOURCE
from tests.support.move_host import GUEST, LARGE, SMALL, facts, moved_and_back, source_and_dest


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
