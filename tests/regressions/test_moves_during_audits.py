"""LP1879878, LP1896463, LP1953359, LP1952915, LP2025480, LP1849165, LP1834349, LP1944759: an audit
in the middle of a move.

Nova derived an instance's usage from its host, its state, its migration and the migration's status,
each of which is written separately. An audit between two of these writes counted a guest twice, not
at all, or with the pins of its other host; it freed devices of running guests, freed CPUs twice
("CPUs not pinned"), or failed and left usage counted in part until a later audit succeeded.

Here usage is what claims record, whatever the states of instance and migration; a claim ends by a
call, in one transaction; and an audit leaves alone what was touched since it began.
"""

from __future__ import annotations

import pytest

from tests.support.pci_hosts import GPU_0, GPU_1
from tests.support.three_hosts import ONE_GPU, PINNED_2, PLAIN, TWO_GPUS, Guests

#: Steps of an observation before which something else happens.
MOMENTS = ["devices", "list", "finish"]


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("flavor", [PINNED_2, ONE_GPU], ids=["pins", "device"])
def test_confirmation_during_an_audit_frees_resources_once(flavor, moment):
    guests = Guests()
    old = guests.run(0, flavor)
    _, migration = guests.claim_move(1, old)
    guests.move(0, "start_move_out", old, migration)
    guests.stop_domain(0, old)
    guests.move(1, "finish_move", old, migration)

    def confirm() -> None:
        guests.move(0, "drop_move_claim_at_source", old, migration)

    guests.audit_between(0, confirm, moment)
    assert guests.allocated(0) == {}
    # Another guest gets what is free, and neither a repeat nor an audit takes it away.
    other = guests.run(0, flavor)
    confirm()
    guests.audit(0)
    guests.audit(0)
    assert set(guests.allocated(0).values()) == {other.owner_id}
    guests.check_all()


@pytest.mark.parametrize("moment", MOMENTS)
def test_revert_during_an_audit_frees_resources_once(moment):
    guests = Guests()
    old = guests.run(0, PINNED_2)
    new, migration = guests.claim_move(1, old)
    guests.move(0, "start_move_out", old, migration)
    guests.move(1, "finish_move", old, migration)
    guests.start_domain(1, new)
    guests.audit_between(
        1, lambda: guests.move(1, "drop_move_claim_at_dest", old, migration), moment
    )
    guests.stop_domain(1, new)
    guests.audit(1)
    assert guests.allocated(1) == {}
    guests.check_all()


@pytest.mark.parametrize("moment", MOMENTS)
def test_guest_that_is_evacuated_during_an_audit_keeps_its_device(moment):
    guests = Guests()
    lost = guests.run(0, ONE_GPU)
    new, migration = guests.claim_move(1, lost, "evacuation")

    def arrives() -> None:
        guests.move(1, "finish_evacuation", lost, migration)
        guests.start_domain(1, new)

    guests.audit_between(1, arrives, moment)
    guests.audit(1)
    assert guests.allocated(1) == {GPU_0: lost.owner_id}
    assert guests.states(1, lost) == ["active"]
    guests.check_all()


def test_incoming_guest_is_pinned_to_cpus_of_its_destination():
    guests = Guests()
    others = guests.run(1, PINNED_2)
    old = guests.run(0, PINNED_2)
    here = {name for name, owner in guests.allocated(0).items() if owner == old.owner_id}
    assert here & guests.allocated(1).keys()  # another guest has them there
    new, _ = guests.claim_move(1, old)
    for _ in range(3):  # by now the instance's record names this host
        guests.update(1, old, "resized", "resize_migrating")
        guests.audit(1)
    assert guests.state(1).claims[new.uuid].numa_topology == new.numa_topology
    assert guests.allocated(1) == {
        **{str(cpu): others.owner_id for cpu in others.numa_topology.taken},
        **{str(cpu): old.owner_id for cpu in new.numa_topology.taken},
    }
    guests.check_all()


def test_guest_that_is_being_unshelved_keeps_its_claim():
    guests = Guests()
    guest = guests.claim(0)
    for task in ("unshelving", "spawning"):
        guests.update(0, guest, "shelved_offloaded", task)
        guests.audit(0)
        assert guests.states(0, guest) == ["building"]
    guests.start_domain(0, guest)
    guests.update(0, guest, "active")
    guests.audit(0)
    assert guests.states(0, guest) == ["active"]
    guests.stop_domain(0, guest)
    guests.update(0, guest, "shelved_offloaded")
    assert guests.states(0, guest) == []


def test_record_and_claim_of_a_move_are_written_in_one_transaction():
    """No audit can come between the two."""
    guests = Guests()
    old = guests.run(0)
    before = guests.state(1)
    new, migration = guests.claim_move(1, old)
    after = guests.state(1)
    assert after.revision == before.revision + 1
    assert after.migrations[migration.uuid].claim_uuid == new.uuid
    guests.audit(1)


def test_confirmation_needs_no_flavor_of_the_instance():
    """Each claim has its own quantities; the caller's migration names no flavor."""
    guests = Guests()
    old = guests.run(0, TWO_GPUS)
    _, migration = guests.claim_move(1, old, flavor=PLAIN)
    assert migration.old_flavor is None
    guests.move(0, "start_move_out", old, migration)
    assert guests.allocated(0).keys() == {GPU_0, GPU_1}
    assert guests.state(0).usage.memory_mb == TWO_GPUS.memory_mb
    guests.move(0, "drop_move_claim_at_source", old, migration)
    assert (guests.allocated(0), guests.state(0).usage.memory_mb) == ({}, 0)
    assert guests.state(1).usage.memory_mb == PLAIN.memory_mb
