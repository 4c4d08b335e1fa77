"""LP1729371, LP1729621: audits that ignore what happens between their observation and their write.

An audit removed what belonged to instances that were being created: it took their absence for a
deletion. Between the two writes of each audit the scheduler saw a host whose usage was counted in
part. What the hypervisor had shown before the lock was taken was applied after, over claims that
had been granted in between.
"""

from tests.support.agents import SMALL, Agent, pinned, with_devices
from tests.support.hosts import uid
from tests.support.pci_hosts import GPU_0


def test_instance_without_a_domain_yet_keeps_its_claim():
    here = Agent(gpus=[GPU_0])
    guest = here.build(with_devices("gpu:1"))
    for _ in range(5):
        here.audit()
    assert (here.states(), here.allocated()) == (["building"], {GPU_0: guest.owner_id})


def test_every_published_state_counts_all_claims():
    here = Agent()
    for flavor in (SMALL, SMALL, pinned(2)):
        here.run(flavor, uid())
    here.audit()
    seen = []
    here.tracker.listen(lambda state, _: seen.append(state))
    for owner in list(here.state.owners):
        here.world.destroy(owner)
        here.audit()
    assert len(seen) == 3
    for state in seen:
        state.check()
        assert state.usage.memory_mb == 1024 + 1024 + 512


def test_claim_that_is_granted_during_an_observation_is_left_alone():
    here, made = Agent(gpus=[GPU_0]), []
    here.audit_while("finish", lambda: made.append(here.run(with_devices("gpu:1"))))
    (claim,) = made
    found = here.state.claims[claim.uuid]
    assert (found.state, found.suspect) == ("active", None)  # its domain was not in the listing
    assert here.allocated() == {GPU_0: claim.owner_id}
