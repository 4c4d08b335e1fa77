"""What is free when a move ends: at which moment, and how much.

It was worked out from flavors that the instance kept, under names that said "old" and "new"; a
claim says itself what it holds.
"""

from __future__ import annotations

import pytest

from rtagent.errors import RequestError
from rtagent.model.claim import EVACUATION
from rtagent.model.migration import DONE, ERROR
from tests.builders import uid
from tests.moving_agents import (
    GUEST,
    LARGE,
    LEASE,
    OTHER,
    SMALL,
    Agent,
    neighbours,
    pinned,
    told,
    with_devices,
)
from tests.pci_hosts import GPU_0, GPU_1


def resized(move, old=SMALL, new=LARGE, **host):
    """From one host to the other, where it has arrived."""
    source, dest = neighbours(**host)
    source.runs(old)
    dest.expects(move, new, old=old)
    source.does("start_move_out", move)
    source.world.destroy(GUEST)
    dest.boots(dest.does("finish_move", move))
    return source, dest


@pytest.mark.parametrize("flavors", [(None, None), (SMALL, LARGE), (LARGE, SMALL), (None, LARGE)])
def test_a_confirmation_needs_nobody_to_tell_the_old_flavor(flavors):
    """LP1834349, LP1944759: an instance forgets its old flavor when it is confirmed, and its record
    at the source never had it: the audit that ran then fell over what was not there."""
    old, new = flavors
    move = told(old_flavor=old, new_flavor=new)
    source, dest = resized(move)
    assert (source.audit().good, dest.audit().good) == (True, True)
    source.does("drop_move_claim_at_source", move)
    assert (source.state.usage.memory_mb, dest.state.usage.memory_mb) == (0, LARGE.memory_mb)
    assert (source.audit().good, dest.audit().good) == (True, True)
    assert (source.state.usage.memory_mb, dest.state.usage.memory_mb) == (0, LARGE.memory_mb)


def test_what_the_source_held_is_free_at_the_moment_of_the_confirmation():
    """LP1818914, LP1647370, LP1498126: a confirmation freed nothing, or the amounts of the new
    flavor; what the source had was free at its next audit, which may be minutes away."""
    old = pinned(4, "gpu:2", root_gb=10, swap=512)
    move = told(old_flavor=LARGE, new_flavor=SMALL)  # whatever the caller believes
    source, _ = resized(move, old=old, new=pinned(1), gpus=[GPU_0, GPU_1])
    source.does("drop_move_claim_at_source", move)
    used = source.state.usage
    assert (used.pcpus, used.memory_mb, used.disk_mb, source.holders()) == (0, 0, 0, {})
    source.runs(old, OTHER)  # no audit in between


def test_on_one_host_each_end_frees_its_own_side_at_once():
    """As above, and the two flavors are of one instance on one host."""
    for end, left in (("drop_move_claim_at_source", LARGE), ("drop_move_claim_at_dest", SMALL)):
        here, move = Agent(), told()
        here.runs(SMALL)
        here.expects(move, LARGE)
        here.does("start_move_out", move)
        here.does("finish_move", move)
        here.does(end, move)
        assert (here.state.usage.memory_mb, here.state.usage.disk_mb) == (
            left.memory_mb,
            left.root_gb * 1024,
        )


def test_a_stale_migration_is_not_counted_for_a_guest_that_is_bound_elsewhere():
    """LP1600304: of a move that had failed and was tried again to another host, the record at the
    first one stayed as it was, and was counted there until somebody mended the table."""
    source, first, second = neighbours(3)
    source.runs()
    lost = told()
    first.expects(lost, LARGE)  # and the call to say that it has failed never comes
    first.clock.advance(LEASE + 1)
    first.audit()
    move = told()
    second.expects(move, LARGE)
    source.does("start_move_out", move)
    second.does("finish_move", move)
    for _ in range(2):
        assert first.state.usage.memory_mb == 0
        assert first.state.migrations[lost.uuid].status == ERROR
        first.start()
    with pytest.raises(RequestError):
        first.does("finish_move", lost)
    assert [agent.state.usage.memory_mb for agent in (source, first, second)] == [1024, 0, 3072]


def test_a_stale_migration_to_here_is_not_counted_beside_the_one_that_brought_the_guest():
    """LP1600304, of two moves to one host: one that failed, and one that did not."""
    here = Agent()
    here.does("drop_move_claim", told())
    failed = told()
    here.expects(failed, LARGE)
    here.does("drop_move_claim", failed)
    move = told()
    here.expects(move, SMALL)
    here.boots(here.does("finish_move", move))
    here.does("drop_move_claim", failed)
    here.audit()
    here.start()
    assert (here.states(), here.state.usage.memory_mb) == (["active"], SMALL.memory_mb)


@pytest.mark.parametrize(
    ("verb", "left", "devices"),
    [
        ("drop_move_claim_at_source", "the new one", [GPU_0, GPU_1]),
        ("drop_move_claim_at_dest", "the old one", [GPU_0]),
        ("drop_move_claim", "the old one", [GPU_0]),
    ],
)
def test_which_side_a_move_frees_is_what_was_asked_for(verb, left, devices):
    """The verb that drops a move's claim took "old_" or "new_" to say which, and never looked: it
    freed the new one's resources whatever it was asked."""
    here, move = Agent(gpus=[GPU_0, GPU_1]), told()
    old = here.runs(with_devices("gpu:1"))
    new = here.expects(move, with_devices("gpu:2"))
    here.does("start_move_out", move)
    here.does("finish_move", move)
    for _ in range(2):
        here.does(verb, move)
        (claim,) = here.state.claims_of(GUEST)
        assert claim.uuid == {"the old one": old, "the new one": new}[left].uuid
        assert sorted(here.holders()) == devices


def test_a_host_that_returns_while_its_guest_is_being_evacuated():
    """LP1764883: the source started while an evacuation was about to begin, and both hosts took the
    instance for theirs. LP2085975: one that started while it was under way asked the wrong host
    whether the disks were shared."""
    source, dest = neighbours()
    source.runs(LARGE)
    source.audit()
    move = told(EVACUATION)
    dest.expects(move, LARGE)
    for _ in range(3):
        source.start()  # its guest runs there still, or again
        source.audit()
        assert (source.states(), dest.states()) == (["active"], ["incoming"])
    dest.boots(dest.does("finish_evacuation", move))
    source.start()  # the other has the guest: that is a fact
    assert (source.states(), dest.states()) == ([], ["active"])
    assert dest.state.migrations[move.uuid].status == DONE
    # What runs here all the same is nobody's claim any more, and is counted until it is removed.
    assert source.state.holdings[GUEST].memory_mb == LARGE.memory_mb
    source.world.destroy(GUEST)
    source.audit()
    assert (source.state.usage.memory_mb, dest.state.usage.memory_mb) == (0, LARGE.memory_mb)


def test_an_evacuation_that_fails_after_the_host_has_returned():
    """LP1764883, and the guest stays where it was."""
    source, dest = neighbours()
    source.runs()
    move = told(EVACUATION)
    dest.expects(move)
    source.start()
    dest.does("drop_move_claim", move)
    source.audit()
    assert (source.states(), dest.states()) == (["active"], [])


def test_a_host_with_a_database_of_its_own_waits_to_be_told():
    """LP1764883: of the other host it knows nothing, and that its guest is missing is no proof."""
    source, dest = neighbours(shared=False)
    source.runs()
    move = told(EVACUATION)
    dest.expects(move)
    dest.boots(dest.does("finish_evacuation", move))
    source.world.destroy(GUEST)
    source.start()
    (claim,) = source.state.claims_of(GUEST)
    assert claim.suspect is not None
    source.does("drop_move_claim_at_source", move)
    assert source.states() == []


def test_every_guest_of_several_evacuations_is_counted():
    """LP1791075: only an instance that was "rebuilding" counted as one that is evacuated to here;
    the task changes while it is spawned, and who came next was given CPUs that it had already."""
    dest = Agent(2)
    tasks = ["rebuilding", "rebuild_spawning", None]
    for number, task in enumerate(tasks):
        guest = uid(700 + number)
        dest.expects(told(EVACUATION), pinned(2), guest)
        dest.hears("error" if task is None else "active", task, guest)
        dest.audit()
    assert len(dest.holders()) == 6
    with pytest.raises(RequestError):
        dest.expects(told(EVACUATION), pinned(2))
    assert dest.state.usage.pcpus == 6
