"""LP1729371, LP1729621: audits that ignore what happens between their observation and their write.

An audit removed what belonged to instances that were being created: it took their absence for a
deletion. Between the two writes of each audit the scheduler saw a host whose usage was counted in
part. What the hypervisor had shown before the lock was taken was applied after, over claims that
had been granted in between.
"""

from tests.support.pci_hosts import GPU_0
from tests.support.three_hosts import ONE_GPU, PINNED_2, PLAIN, Guests


def test_instance_without_a_domain_yet_keeps_its_claim():
    guests = Guests()
    guest = guests.claim(0, ONE_GPU)
    for _ in range(5):
        guests.audit(0)
    assert (guests.states(0, guest), guests.allocated(0)) == (["building"], {GPU_0: guest.owner_id})


def test_every_published_state_counts_all_claims():
    guests = Guests()
    for flavor in (PLAIN, PLAIN, PINNED_2):
        guests.run(0, flavor)
    guests.audit(0)
    seen = []
    guests.trackers[0].listen(lambda state, _: seen.append(state))
    guests.restart(1)
    for claim in list(guests.state(0).claims.values()):
        guests.stop_domain(0, claim)
        guests.audit(0)
    assert len(seen) == 3
    for state in seen:
        state.check()
        assert state.usage.memory_mb == 1024 + 1024 + 512


def test_claim_that_is_granted_during_an_observation_is_left_alone():
    guests = Guests()
    made = []
    guests.audit_between(0, lambda: made.append(guests.run(0, ONE_GPU)))
    (claim,) = made
    found = guests.state(0).claims[claim.uuid]
    assert (found.state, found.suspect) == ("active", None)  # its domain was not in the listing
    assert guests.allocated(0) == {GPU_0: claim.owner_id}
