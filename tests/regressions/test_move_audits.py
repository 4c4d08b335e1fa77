"""An audit that runs while a guest moves.

The tracker that all of these happened to worked out anew, at each audit, who holds what: from the
instances' states, from the migrations, and from what each of the two said of the other. Whoever
wrote the one before the other was seen in between.

A claim is a record of its own, a call is one transaction, and an audit leaves alone what was
touched since it began.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from rtagent.model.claim import EVACUATION, LIVE_MIGRATION
from rtagent.model.flavor import Flavor
from rtagent.model.migration import MigrationFacts
from rtagent.model.numa_usage import Occupancy
from rtagent.views import absent, drifts, suspects
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
    pins,
    told,
    with_devices,
)
from tests.pci_hosts import GPU_0, GPU_1

#: The steps of an observation of a host on which the guest's domain is.
STEPS = ("devices", "list", f"read {GUEST}", "finish")


def moved_away(flavor: Flavor, **host: Any) -> tuple[Agent, MigrationFacts]:
    """A source whose guest has arrived elsewhere; its domain is here until somebody removes it."""
    source, dest = neighbours(**host)
    source.runs(flavor)
    source.audit()
    move = told()
    dest.expects(move, flavor, old=flavor)
    source.does("start_move_out", move)
    dest.boots(dest.does("finish_move", move))
    return source, move


@pytest.mark.parametrize("step", STEPS)
def test_a_confirmation_in_the_middle_of_an_audit_frees_once(step):
    """LP1879878: the migration was confirmed before its claim was dropped. An audit in between saw
    no migration and freed CPUs and devices; the drop freed them again: "CPUs not pinned", and a
    device that somebody else had been given by then was free once more."""
    source, move = moved_away(pinned(4, "gpu:1"), gpus=[GPU_0])

    def confirmed_and_taken() -> None:
        source.does("drop_move_claim_at_source", move)
        source.runs(pinned(4, "gpu:1"), OTHER)

    source.audit_while(step, confirmed_and_taken)
    source.does("drop_move_claim_at_source", move)  # once more
    source.world.destroy(GUEST)
    source.audit()
    assert set(source.holders().values()) == {OTHER}
    assert (source.state.usage.pcpus, len(source.holders())) == (4, 5)


def test_a_confirmation_is_one_transaction():
    """LP1879878: whoever looks sees the migration confirmed and its claim gone, or neither."""
    source, move = moved_away(pinned(2))
    before = source.store.calls["commit"]
    source.does("drop_move_claim_at_source", move)
    assert source.store.calls["commit"] == before + 1
    assert source.kept.migrations[move.uuid].status == "confirmed"
    assert not source.kept.claims and not source.state.claims


@pytest.mark.parametrize("step", ["devices", "list", "finish"])
def test_a_guest_that_is_evacuated_to_here_during_an_audit_keeps_its_device(step):
    """LP1896463: the audit had loaded the instances of this host when the evacuation ended, and
    read the migrations after it had. Found in neither, the guest lost its devices while it ran."""
    _, dest = neighbours(gpus=[GPU_0])
    move = told(EVACUATION)
    dest.expects(move, with_devices("gpu:1"))

    def arrives() -> None:
        dest.boots(dest.does("finish_evacuation", move))

    dest.clock.advance(LEASE + 1)  # what would have ended it by itself
    dest.audit_while(step, arrives)
    dest.audit()
    assert dest.states() == ["active"]
    assert dest.holders() == {GPU_0: GUEST}
    assert not suspects(dest.state)


def test_cpus_of_the_source_do_not_trouble_the_destination():
    """LP1953359, LP1952915: a guest that arrives is the destination's before it has a place there:
    the audit took the CPUs that it had at its source for pinned here, found them taken, and ended
    in an error. Nothing was updated until the guest had its place."""
    source, dest = neighbours()
    theirs = dest.runs(pinned(2), OTHER)
    ours = source.runs(pinned(2))
    assert pins(theirs) == pins(ours)
    claim = dest.expects(told(LIVE_MIGRATION), pinned(2))
    assert not pins(claim) & pins(theirs)
    # The domain comes with the CPUs of its source, and is given others a moment later.
    dest.world.start_domain(GUEST, 2, 512, occupancy=Occupancy(pcpus=pins(ours)))
    dest.world.start_domain(uid(503), 1, 64)
    assert dest.audit().good
    assert {drift.owner_id for drift in drifts(dest.state)} == {GUEST}
    assert dest.state.holdings[uid(503)].memory_mb == 64  # and the others are seen to
    dest.boots(claim)
    assert dest.audit().good
    assert not drifts(dest.state)
    assert dest.state.usage.pcpus == 4


def test_a_guest_that_comes_to_here_and_is_gone_again_before_the_audit_has_ended():
    """As above, and the other way round: the migrations told of a guest of which the audit had not
    heard when it began."""
    here, other = neighbours()
    here.world.start_domain(uid(503), 1, 64)

    def comes_and_goes() -> None:
        here.runs()
        move = told(EVACUATION)
        other.expects(move)
        other.boots(other.does("finish_evacuation", move))
        here.world.destroy(GUEST)

    assert here.audit_while("finish", comes_and_goes).good
    assert here.state.holdings[uid(503)].memory_mb == 64
    assert here.audit().good
    assert (here.states(), other.states()) == ([], ["active"])


@pytest.mark.parametrize("step", ["devices", "list", "finish"])
def test_a_guest_that_comes_from_the_shelf_during_an_audit_keeps_its_claim(step):
    """LP2025480: an instance that is unshelved is "offloaded" still while its domain is being
    spawned. The audit read the state and deleted the claim; the guest ran on and nobody counted
    it."""
    here = Agent()
    claim = here.builds(LARGE)
    here.hears("shelved_offloaded", "spawning")

    def spawned() -> None:
        here.boots(here.tracker.activate_claim(claim.uuid, here.asked("activate_claim")))
        here.hears("shelved_offloaded", "spawning")

    here.audit_while(step, spawned)
    assert here.states() == ["active"]
    here.hears("active")
    assert here.audit().good
    assert here.state.usage.memory_mb == LARGE.memory_mb
    here.hears("shelved_offloaded")
    assert here.state.usage.memory_mb == 0


def test_a_migration_of_which_there_is_a_record_and_nothing_else():
    """LP1849165: a migration was written before what the instance keeps of it, and an audit
    between the two ended in a traceback."""
    here = Agent()
    here.runs(owner=OTHER)
    early = told()
    here.does("drop_move_claim_at_dest", early)  # overtook the call that makes the claim
    failed = told()
    here.tracker.release_claim(here.expects(failed).uuid, here.asked("release_claim"))
    for _ in range(2):
        here.world.start_domain(uid(), 1, 64)
        assert here.audit().good
        assert here.state.usage.memory_mb == SMALL.memory_mb + 64 * len(here.state.holdings)
        here.start()
    assert here.state.migrations[early.uuid].claim_uuid is None
    assert here.state.migrations[failed.uuid].claim_uuid not in here.state.claims


@pytest.mark.parametrize("step", STEPS)
def test_what_changes_hands_while_the_host_is_looked_at(step):
    """The host was looked at without the lock, and what was seen then was applied under it: CPUs
    and devices that had changed hands in between were given back to who had them before."""
    here = Agent(gpus=[GPU_0, GPU_1])
    old = here.runs(pinned(4, "gpu:2"))
    here.audit()

    def changes_hands() -> None:
        here.releases(old)
        here.world.destroy(GUEST)
        here.runs(pinned(4, "gpu:2"), OTHER)

    here.audit_while(step, changes_hands)
    assert set(here.holders().values()) == {OTHER}
    here.audit()
    assert set(here.holders().values()) == {OTHER}
    assert here.state.usage.pcpus == 4
    assert not here.state.holdings


def test_a_device_that_is_claimed_while_the_host_is_looked_at():
    """As above: the device was not there when the look began, and is a guest's when it ends."""
    here = Agent(gpus=[GPU_0])
    device = here.world.devices[GPU_0]
    here.world.unplug(GPU_0)

    def back_and_taken() -> None:
        here.world.plug(device)
        here.builds(with_devices("gpu:1"))

    here.audit_while("list", back_and_taken)
    assert GPU_0 in here.state.devices
    here.audit()
    assert (here.holders(), absent(here.state)) == ({GPU_0: GUEST}, ())


def test_nobody_sees_a_half_of_an_audit():
    """LP1729621: an audit wrote the node's record twice: first with the guests that it had, from
    zero, and then with those that were migrating. For seconds the scheduler saw a host half empty.
    """
    here = Agent()
    here.runs(LARGE)
    here.expects(told(), LARGE, OTHER)
    published = [here.state.usage.memory_mb]

    def looks(state, _changes) -> None:
        published.append(state.usage.memory_mb)
        assert here.kept.usage == state.usage

    here.tracker.listen(looks)
    for number in range(60):  # more than one decision's worth
        here.world.start_domain(uid(700 + number), 1, 10)
    here.world.destroy(GUEST)
    summary = here.audit()
    assert (summary.applied, len(published)) == (61, 3)
    assert all(earlier < later for earlier, later in pairwise(published))
    assert published[-1] == 2 * LARGE.memory_mb + 600
    commits = here.store.calls["commit"]
    here.audit()
    assert here.store.calls["commit"] == commits  # of an unchanged host: nothing at all
