"""Moves that end because their claims do: instance deletion, releases."""

import pytest

from tests.support.move_host import GUEST, LARGE, Host, facts, in_transit


@pytest.mark.parametrize("vm_state", ["deleted", "shelved_offloaded"])
def test_deleted_instance_holds_nothing_whatever_move_it_is_in(vm_state):
    source, dest, migration = in_transit()
    for host in (source, dest):
        host.update(vm_state)
        assert (host.states, host.usage.memory_mb) == ([], 0)
    # The source gives up what it held for a revert, as a confirmation does; the destination's
    # guest never arrived.
    assert (source.status(migration), dest.status(migration)) == ("confirmed", "error")


def test_finished_move_of_a_deleted_instance_stays_finished():
    _, dest, migration = in_transit()
    dest.finish_move(migration)
    dest.update("deleted")
    assert dest.status(migration) == "finished"


def test_deletion_ends_a_resize_on_one_host():
    for finished, status in ((True, "confirmed"), (False, "error")):
        here = Host()
        here.build()
        migration = facts()
        here.claim_move(migration, LARGE)
        here.start_move_out(migration)
        if finished:
            here.finish_move(migration)
        here.update("deleted")
        assert (here.states, here.status(migration)) == ([], status)


@pytest.mark.parametrize(
    ("vm_state", "task_state"),
    [("soft-delete", None), ("shelved_offloaded", "spawning"), ("shelved_offloaded", "unshelving")],
)
def test_soft_deleted_or_unshelving_instance_keeps_its_claims(vm_state, task_state):
    source, dest, _ = in_transit()
    source.update(vm_state, task_state)
    dest.update(vm_state, task_state)
    assert (source.states, dest.states) == (["outgoing"], ["incoming"])


def test_operator_may_release_either_side():
    source, dest, migration = in_transit()
    source.release(source.state.claims_of(GUEST)[0])
    dest.release(dest.state.claims_of(GUEST)[0])
    assert (source.status(migration), dest.status(migration)) == ("confirmed", "error")
