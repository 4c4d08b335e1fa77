"""LP1729371, LP1729621, and the window between what an audit saw and what it wrote.

An audit deleted what belonged to instances that were still being created: that they were not found
was read as that they were deleted. Between the two writes of each audit the scheduler saw a host
half-counted. And what the hypervisor had shown before the lock was taken was applied after, over
whatever had been granted in between.
"""

from __future__ import annotations

from tests.moving_guests import ONE_GPU, PINNED_2, PLAIN, Guests
from tests.pci_hosts import GPU_0


def test_a_guest_that_is_not_there_yet_is_not_deleted():
    guests = Guests()
    guest = guests.claim(0, ONE_GPU)
    for _ in range(5):
        guests.audit(0)
    assert (guests.states(0, guest), guests.holders(0)) == (["building"], {GPU_0: guest.owner_id})


def test_nobody_sees_a_host_that_is_half_counted():
    guests = Guests()
    for flavor in (PLAIN, PLAIN, PINNED_2):
        guests.run(0, flavor)
    guests.audit(0)
    seen = []
    guests.trackers[0].listen(lambda state, _: seen.append(state))
    guests.restart(1)
    for claim in list(guests.state(0).claims.values()):
        guests.goes(0, claim)
        guests.audit(0)
    assert len(seen) == 3
    for state in seen:
        state.check()
        assert state.usage.memory_mb == 1024 + 1024 + 512


def test_what_is_granted_while_the_host_is_looked_at_is_left_alone():
    guests = Guests()
    made = []
    guests.audit_between(0, lambda: made.append(guests.run(0, ONE_GPU)))
    (claim,) = made
    found = guests.state(0).claims[claim.uuid]
    assert (found.state, found.suspect) == ("active", None)  # the listing had no such domain
    assert guests.holders(0) == {GPU_0: claim.owner_id}
