"""Moves of which a caller states the outcome alone, and moves that end because their claims do."""

import pytest

from rtagent.errors import ClaimExpired, ClaimNotFound, IllegalTransition
from rtagent.model.migration import DEST, SOURCE
from tests.support.move_host import GUEST, LARGE, SMALL, Host, facts, in_transit, source_and_dest


def nodes(source=1, dest=2, kind="resize"):
    """A move between two hosts of `Host.named`."""
    return facts(kind, source_node=f"h{source}.example", dest_node=f"h{dest}.example")


def resized():
    """A host on which a claim for another size was made, and nothing since."""
    here = Host.named(1)
    here.build()
    move = nodes(1, 1)
    here.claim_move(move, LARGE)
    return here, move


@pytest.mark.parametrize(
    ("outcome", "source_states", "dest_states", "statuses"),
    [
        ("arrived", ["outgoing"], ["active"], ("migrating", "finished")),
        ("confirmed", [], ["active"], ("confirmed", "confirmed")),
        ("reverted", ["active"], [], ("reverted", "reverted")),
        ("failed", ["active"], [], ("error", "error")),
    ],
)
@pytest.mark.parametrize("started", [True, False])
def test_each_node_gets_to_the_outcome(outcome, source_states, dest_states, statuses, started):
    source, dest = source_and_dest()
    move = nodes()
    dest.claim_move(move, LARGE)
    if started:
        source.start_move_out(move)
    for _ in range(2):
        source.settle(move, outcome)
        dest.settle(move, outcome)
        assert (source.states, dest.states) == (source_states, dest_states)
        assert (source.status(move), dest.status(move)) == statuses
    assert (source.record(move).role, dest.record(move).role) == (SOURCE, DEST)


@pytest.mark.parametrize(
    ("outcome", "states", "flavor", "status"),
    [
        ("arrived", ["outgoing", "active"], None, "finished"),
        ("confirmed", ["active"], LARGE, "confirmed"),
        ("reverted", ["active"], SMALL, "reverted"),
        ("failed", ["active"], SMALL, "error"),
    ],
)
def test_resize_on_one_host_gets_to_the_outcome_in_one_step(outcome, states, flavor, status):
    here, move = resized()
    for _ in range(2):
        here.settle(move, outcome)
        assert (here.states, here.status(move)) == (states, status)
    if flavor is not None:
        assert here.state.claims_of(GUEST)[0].flavor == flavor
        assert here.usage.memory_mb == flavor.memory_mb


@pytest.mark.parametrize(
    ("first", "then"), [("confirmed", "reverted"), ("reverted", "confirmed"), ("failed", "arrived")]
)
def test_contradicting_outcome_is_refused(first, then):
    here, move = resized()
    here.settle(move, first)
    with pytest.raises(IllegalTransition, match="settle_move is not legal"):
        here.settle(move, then)


def test_guest_without_a_claim_cannot_arrive():
    with pytest.raises(ClaimNotFound):
        Host.named(2).settle(nodes(), "arrived")
    _, dest, move = in_transit()
    dest.release(dest.state.claims_of(GUEST)[0])
    with pytest.raises((ClaimExpired, IllegalTransition)):
        dest.settle(move, "arrived")


def test_claim_that_is_outgoing_for_another_move_stays():
    source, dest, first = in_transit()
    source.settle(first, "failed")
    second = nodes()
    source.start_move_out(second)
    source.settle(first, "failed")
    assert source.states == ["outgoing"]
    other = nodes()
    source.settle(other, "failed")
    assert source.states == ["outgoing"]
    assert dest.states == ["incoming"]


@pytest.mark.parametrize("kind", ["migration", "live-migration", "evacuation"])
def test_every_type_of_move_is_confirmed(kind):
    source, dest = source_and_dest()
    move = nodes(kind=kind)
    dest.claim_move(move)
    for host in (dest, source):
        host.settle(move, "arrived")
        host.settle(move, "confirmed")
    assert (source.states, dest.states) == ([], ["active"])
    assert not source.usage.memory_mb


@pytest.mark.parametrize("vm_state", ["deleted", "shelved_offloaded"])
def test_deleted_instance_holds_nothing_whatever_move_it_is_in(vm_state):
    source, dest, migration = in_transit()
    for host in (source, dest):
        host.update(vm_state)
        assert (host.states, host.usage.memory_mb) == ([], 0)
    # The source gives up what it held for a revert, as a confirmation does; the destination's
    # guest never arrived.
    assert (source.status(migration), dest.status(migration)) == ("confirmed", "error")


@pytest.mark.parametrize(
    ("kind", "status"), [("resize", "finished"), ("live-migration", "completed")]
)
def test_finished_move_of_a_deleted_instance_stays_finished(kind, status):
    dest, migration = Host.named(2), facts(kind)
    dest.claim_move(migration)
    dest.finish_move(migration)
    dest.update("deleted")
    assert (dest.states, dest.status(migration)) == ([], status)


def test_deletion_ends_a_resize_on_one_host():
    for finished, status in ((True, "confirmed"), (False, "error")):
        here, migration = resized()
        here.start_move_out(migration)
        if finished:
            here.finish_move(migration)
        here.update("deleted")
        assert (here.states, here.status(migration)) == ([], status)


@pytest.mark.parametrize("task_state", ["spawning", "unshelving"])
def test_unshelving_instance_keeps_its_claims(task_state):
    source, _, _ = in_transit()
    source.update("shelved_offloaded", task_state)
    assert source.states == ["outgoing"]


@pytest.mark.parametrize("last", ["confirmed", "reverted"])
def test_outcome_follows_an_arrival(last):
    source, dest, move = in_transit()
    for host in (source, dest):
        host.settle(move, "arrived")
    for host in (source, dest):
        host.settle(move, last)
    states = ([], ["active"])
    assert (source.states, dest.states) == (states if last == "confirmed" else states[::-1])


def test_claim_at_the_destination_is_not_taken_for_the_source_s():
    """The guest was adopted at its destination, without its migration."""
    dest = Host.named(2)
    dest.build()
    move = nodes()
    dest.settle(move, "confirmed")
    assert dest.states == ["active"]
    assert dest.record(move).role == DEST
