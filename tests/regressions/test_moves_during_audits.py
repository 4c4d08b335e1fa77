"""LP1879878, LP1896463, LP1953359, LP1952915, LP2025480, LP1849165, LP1834349, LP1944759: an audit
in the middle of a move.

What an instance used was told from its host, its state, its migration and the migration's status,
each of them written by itself. An audit between two of these writes counted a guest twice, not at
all, or with the pins that it had elsewhere; it freed devices of running guests, freed the same CPUs
twice ("CPUs not pinned"), or died and left the tracker half-counted until a later one went through.

Here a claim says what is used, whatever the instance's and the migration's states are; it ends by a
call, in one transaction; and an audit leaves alone what was touched since it began.
"""

from __future__ import annotations

import pytest

from tests.moving_guests import ONE_GPU, PINNED_2, PLAIN, TWO_GPUS, Guests
from tests.pci_hosts import GPU_0, GPU_1

#: Where, within an audit's look at the host, something else happens.
MOMENTS = ["devices", "list", "finish"]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("flavor", [PINNED_2, ONE_GPU], ids=["pins", "device"])
def test_a_confirmation_during_an_audit_frees_once(flavor, moment):
    guests = Guests()
    old = guests.run(0, flavor)
    _, told = guests.expect(1, old)
    guests.say(0, "start_move_out", old, told)
    guests.goes(0, old)
    guests.say(1, "finish_move", old, told)

    def confirm() -> None:
        guests.say(0, "drop_move_claim_at_source", old, told)

    guests.audit_between(0, confirm, moment)
    assert guests.holders(0) == {}
    # What is free is given to another, and neither a repetition nor an audit takes it from him.
    other = guests.run(0, flavor)
    confirm()
    guests.audit(0)
    guests.audit(0)
    assert set(guests.holders(0).values()) == {other.owner_id}
    guests.checked()


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_revert_during_an_audit_frees_once(moment):
    guests = Guests()
    old = guests.run(0, PINNED_2)
    new, told = guests.expect(1, old)
    guests.say(0, "start_move_out", old, told)
    guests.say(1, "finish_move", old, told)
    guests.appears(1, new)
    guests.audit_between(1, lambda: guests.say(1, "drop_move_claim_at_dest", old, told), moment)
    guests.goes(1, new)
    guests.audit(1)
    assert guests.holders(1) == {}
    guests.checked()


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_guest_that_is_evacuated_during_an_audit_keeps_its_device(moment):
    guests = Guests()
    lost = guests.run(0, ONE_GPU)
    new, told = guests.expect(1, lost, "evacuation")

    def arrives() -> None:
        guests.say(1, "finish_evacuation", lost, told)
        guests.appears(1, new)

    guests.audit_between(1, arrives, moment)
    guests.audit(1)
    assert guests.holders(1) == {GPU_0: lost.owner_id}
    assert guests.states(1, lost) == ["active"]
    guests.checked()


def test_an_incoming_guest_has_the_pins_of_where_it_goes():
    guests = Guests()
    others = guests.run(1, PINNED_2)
    old = guests.run(0, PINNED_2)
    here = {name for name, owner in guests.holders(0).items() if owner == old.owner_id}
    assert here & guests.holders(1).keys()  # which are another's there
    new, _ = guests.expect(1, old)
    for _ in range(3):  # the instance's record says by now that it is on this host
        guests.tell(1, old, "resized", "resize_migrating")
        guests.audit(1)
    assert guests.state(1).claims[new.uuid].numa_topology == new.numa_topology
    assert guests.holders(1) == {
        **{str(cpu): others.owner_id for cpu in others.numa_topology.taken},
        **{str(cpu): old.owner_id for cpu in new.numa_topology.taken},
    }
    guests.checked()


def test_a_guest_that_comes_back_from_the_shelf_is_not_dropped_for_being_shelved():
    guests = Guests()
    guest = guests.claim(0)
    for task in ("unshelving", "spawning"):
        guests.tell(0, guest, "shelved_offloaded", task)
        guests.audit(0)
        assert guests.states(0, guest) == ["building"]
    guests.appears(0, guest)
    guests.tell(0, guest, "active")
    guests.audit(0)
    assert guests.states(0, guest) == ["active"]
    guests.goes(0, guest)
    guests.tell(0, guest, "shelved_offloaded")
    assert guests.states(0, guest) == []


def test_there_is_no_moment_at_which_a_move_has_a_record_and_no_claim():
    """Both are of one transaction, so that no audit can be between them."""
    guests = Guests()
    old = guests.run(0)
    before = guests.state(1)
    new, told = guests.expect(1, old)
    after = guests.state(1)
    assert after.revision == before.revision + 1
    assert after.migrations[told.uuid].claim_uuid == new.uuid
    guests.audit(1)


def test_what_is_confirmed_needs_no_flavor_of_the_instance():
    """Each claim brings its own amounts; the migration that is passed says nothing of flavors."""
    guests = Guests()
    old = guests.run(0, TWO_GPUS)
    _, told = guests.expect(1, old, flavor=PLAIN)
    assert told.old_flavor is None
    guests.say(0, "start_move_out", old, told)
    assert guests.holders(0).keys() == {GPU_0, GPU_1}
    assert guests.state(0).usage.memory_mb == TWO_GPUS.memory_mb
    guests.say(0, "drop_move_claim_at_source", old, told)
    assert (guests.holders(0), guests.state(0).usage.memory_mb) == ({}, 0)
    assert guests.state(1).usage.memory_mb == PLAIN.memory_mb
