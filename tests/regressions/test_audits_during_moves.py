"""An audit that runs while a guest moves.

Nova derives at each audit which instance uses what: from the instances' states, from the migrations
and from their references to each other. These are written one after the other, and an audit may
run in between.

Here a claim is a record of its own, a call is one transaction, and an audit leaves alone what was
touched since it began.
"""

from itertools import pairwise
from typing import Any

import pytest

from rtagent.claims import activate_claim, release_claim
from rtagent.model.claim import EVACUATION, LIVE_MIGRATION
from rtagent.model.domain_usage import Occupancy
from rtagent.model.migration import MigrationFacts
from rtagent.model.request import Flavor
from rtagent.reconcile.drift import absent, drifts, suspects
from tests.support.agents import (
    GUEST,
    LARGE,
    LEASE,
    OTHER,
    SMALL,
    Agent,
    agents,
    facts,
    pinned,
    pins,
    with_devices,
)
from tests.support.hosts import uid
from tests.support.pci_hosts import GPU_0, GPU_1

#: The steps of the observation of a host that has the guest's domain.
STEPS = ("devices", "list", f"read {GUEST}", "finish")


def moved_away(flavor: Flavor, **host: Any) -> tuple[Agent, MigrationFacts]:
    """A source whose guest has arrived at the destination. Its domain is still defined here."""
    source, dest = agents(**host)
    source.run(flavor)
    source.audit()
    move = facts()
    dest.claim_move(move, flavor, old=flavor)
    source.move("start_move_out", move)
    dest.start_domain(dest.move("finish_move", move))
    return source, move


@pytest.mark.parametrize("step", STEPS)
def test_confirmation_during_an_audit_frees_resources_once(step):
    """LP1879878: the migration was confirmed before its claim was dropped. An audit in between saw
    no migration and freed CPUs and devices. The drop freed them again: "CPUs not pinned", and a
    device that another guest had got by then was free once more."""
    source, move = moved_away(pinned(4, "gpu:1"), gpus=[GPU_0])

    def confirmed_and_taken() -> None:
        source.move("drop_move_claim_at_source", move)
        source.run(pinned(4, "gpu:1"), OTHER)

    source.audit_while(step, confirmed_and_taken)
    source.move("drop_move_claim_at_source", move)  # a repeat
    source.world.destroy(GUEST)
    source.audit()
    assert set(source.allocated().values()) == {OTHER}
    assert (source.state.usage.pcpus, len(source.allocated())) == (4, 5)


def test_confirmation_is_one_transaction():
    """LP1879878: a reader sees the migration confirmed and its claim released, or neither."""
    source, move = moved_away(pinned(2))
    before = source.store.calls["commit"]
    source.move("drop_move_claim_at_source", move)
    assert source.store.calls["commit"] == before + 1
    assert source.stored.migrations[move.uuid].status == "confirmed"
    assert not source.stored.claims and not source.state.claims


def test_claim_of_a_move_and_its_record_are_one_transaction():
    """LP1849165: a reader sees both or neither."""
    source, dest = agents()
    source.run()
    move, before = facts(), dest.store.calls["commit"]
    claim = dest.claim_move(move)
    assert dest.store.calls["commit"] == before + 1
    assert dest.stored.migrations[move.uuid].claim_uuid == claim.uuid


@pytest.mark.parametrize("step", ["devices", "list", "finish"])
def test_revert_during_an_audit_frees_resources_once(step):
    """LP1879878, at the destination."""
    source, dest = agents()
    source.run(pinned(2))
    move = facts()
    dest.claim_move(move, pinned(2))
    source.move("start_move_out", move)
    dest.start_domain(dest.move("finish_move", move))
    dest.audit_while(step, lambda: dest.move("drop_move_claim_at_dest", move))
    dest.world.destroy(GUEST)
    dest.audit()
    assert (dest.states(), dest.state.usage.pcpus) == ([], 0)


@pytest.mark.parametrize("step", ["devices", "list", "finish"])
def test_guest_that_arrives_by_evacuation_during_an_audit_keeps_its_device(step):
    """LP1896463: the audit loaded the host's instances before the evacuation ended, and the
    migrations after. The guest was in neither, and lost its devices while it ran."""
    _, dest = agents(gpus=[GPU_0])
    move = facts(EVACUATION)
    dest.claim_move(move, with_devices("gpu:1"))

    def arrives() -> None:
        dest.start_domain(dest.move("finish_evacuation", move))

    dest.clock.advance(LEASE + 1)  # the lease has lapsed
    dest.audit_while(step, arrives)
    dest.audit()
    assert dest.states() == ["active"]
    assert dest.allocated() == {GPU_0: GUEST}
    assert not suspects(dest.state)


def test_incoming_guest_with_the_cpus_of_its_source_does_not_fail_the_audit():
    """LP1953359, LP1952915: an incoming guest belongs to the destination before it is pinned there.
    The audit took the CPUs that it had at its source for pinned here, found that another guest had
    them, and failed. Nothing was updated until the guest was pinned."""
    source, dest = agents()
    theirs = dest.run(pinned(2), OTHER)
    ours = source.run(pinned(2))
    assert pins(theirs) == pins(ours)
    claim = dest.claim_move(facts(LIVE_MIGRATION), pinned(2))
    assert not pins(claim) & pins(theirs)
    # The domain arrives with the CPUs of its source, and is pinned to others a moment later.
    dest.world.start_domain(GUEST, 2, 512, occupancy=Occupancy(pcpus=pins(ours)))
    dest.world.start_domain(uid(503), 1, 64)
    assert dest.audit().good
    assert {drift.owner_id for drift in drifts(dest.state)} == {GUEST}
    assert dest.state.domain_usages[uid(503)].memory_mb == 64  # other domains are recorded
    dest.start_domain(claim)
    assert dest.audit().good
    assert not drifts(dest.state)
    assert dest.state.usage.pcpus == 4


def test_guest_that_arrives_and_leaves_during_an_audit_does_not_fail_it():
    """LP1953359, LP1952915: migrations named a guest that the audit did not know when it began."""
    here, other = agents()
    here.world.start_domain(uid(503), 1, 64)

    def comes_and_goes() -> None:
        here.run()
        move = facts(EVACUATION)
        other.claim_move(move)
        other.start_domain(other.move("finish_evacuation", move))
        here.world.destroy(GUEST)

    assert here.audit_while("finish", comes_and_goes).good
    assert here.state.domain_usages[uid(503)].memory_mb == 64
    assert here.audit().good
    assert (here.states(), other.states()) == ([], ["active"])


@pytest.mark.parametrize("step", ["devices", "list", "finish"])
def test_guest_that_is_unshelved_during_an_audit_keeps_its_claim(step):
    """LP2025480: an instance that is unshelved is still "offloaded" while its domain is spawned.
    The audit read the state and deleted the claim; the guest ran on and was not counted."""
    here = Agent()
    claim = here.build(LARGE)
    here.update("shelved_offloaded", "spawning")

    def spawned() -> None:
        here.start_domain(
            here.tracker.change(activate_claim, here.next_call("activate_claim"), claim.uuid)
        )
        here.update("shelved_offloaded", "spawning")

    here.audit_while(step, spawned)
    assert here.states() == ["active"]
    here.update("active")
    assert here.audit().good
    assert here.state.usage.memory_mb == LARGE.memory_mb
    here.update("shelved_offloaded")
    assert here.state.usage.memory_mb == 0


def test_migration_record_without_a_claim_does_not_fail_the_audit():
    """LP1849165: a migration was written before the instance's own part of it, and an audit between
    the two ended in a traceback."""
    here = Agent()
    here.run(owner=OTHER)
    early = facts()
    here.move("drop_move_claim_at_dest", early)  # before the call that makes the claim
    failed = facts()
    here.tracker.execute(
        release_claim, here.next_call("release_claim"), here.claim_move(failed).uuid
    )
    for _ in range(2):
        here.world.start_domain(uid(), 1, 64)
        assert here.audit().good
        assert here.state.usage.memory_mb == SMALL.memory_mb + 64 * len(here.state.domain_usages)
        here.start()
    assert here.state.migrations[early.uuid].claim_uuid is None
    assert here.state.migrations[failed.uuid].claim_uuid not in here.state.claims


@pytest.mark.parametrize("step", STEPS)
def test_resources_that_change_owner_during_an_observation_stay_with_the_new_owner(step):
    """Nova observed the host without the lock, and applied the observation under it: CPUs and
    devices that had changed owner in between were given back to the former owner."""
    here = Agent(gpus=[GPU_0, GPU_1])
    old = here.run(pinned(4, "gpu:2"))
    here.audit()

    def changes_hands() -> None:
        here.release(old)
        here.world.destroy(GUEST)
        here.run(pinned(4, "gpu:2"), OTHER)

    here.audit_while(step, changes_hands)
    assert set(here.allocated().values()) == {OTHER}
    here.audit()
    assert set(here.allocated().values()) == {OTHER}
    assert here.state.usage.pcpus == 4
    assert not here.state.domain_usages


def test_device_that_is_claimed_during_an_observation_is_kept():
    """The device is absent when the observation begins, and is claimed when it ends."""
    here = Agent(gpus=[GPU_0])
    device = here.world.devices[GPU_0]
    here.world.unplug(GPU_0)

    def back_and_taken() -> None:
        here.world.plug(device)
        here.build(with_devices("gpu:1"))

    here.audit_while("list", back_and_taken)
    assert GPU_0 in here.state.devices
    here.audit()
    assert (here.allocated(), absent(here.state)) == ({GPU_0: GUEST}, ())


def test_every_state_that_an_audit_publishes_counts_all_claims():
    """LP1729621: an audit wrote the node's record twice: with the host's guests, and then with
    those that were migrating as well. For seconds the scheduler saw too little usage."""
    here = Agent()
    here.run(LARGE)
    here.claim_move(facts(), LARGE, OTHER)
    published = [here.state.usage.memory_mb]

    def check(state, _changes) -> None:
        published.append(state.usage.memory_mb)
        assert here.stored.usage == state.usage

    here.tracker.listen(check)
    for number in range(60):  # more than one decision carries
        here.world.start_domain(uid(700 + number), 1, 10)
    here.world.destroy(GUEST)
    assert (here.audit().applied, len(published)) == (61, 3)
    assert all(earlier < later for earlier, later in pairwise(published))
    assert published[-1] == 2 * LARGE.memory_mb + 600
    commits = here.store.calls["commit"]
    here.audit()
    assert here.store.calls["commit"] == commits  # an unchanged host: no commit
