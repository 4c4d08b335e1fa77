"""What an audit may conclude from an observation, and what it may not."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rtagent.model.change import Change
from rtagent.model.claim import ACTIVE, ATTACH, DAMAGED
from rtagent.model.domain_usage import HostResource, Occupancy
from rtagent.model.observation import Reboot, reboot
from rtagent.reconcile.drift import drifts
from rtagent.reconcile.plan import plan
from tests.support.audits import CLAIM, OWNER, active, audited, building, domain, seen, unreadable
from tests.support.device_states import with_builds
from tests.support.hosts import NOON, PINNED, PINNING, TOPOLOGY, host, request, uid
from tests.support.pci_hosts import GPU_0


def test_active_claim_without_a_domain_is_suspect_and_still_counted():
    after, _ = audited(active(), seen())
    assert after.claims[CLAIM].suspect
    assert after.usage == active().usage


def test_nothing_is_concluded_from_a_domain_that_was_gone_before_it_was_read():
    gone = replace(domain(), vcpus=None, memory_mb=None, gone=True)
    missed, _ = audited(active(), seen())
    for state in (active(), missed, building()):
        assert plan(state, seen(gone), frozenset({CLAIM})) == ()


def test_what_is_unknown_is_recorded_before_what_is_not_unknown_any_more():
    orphan, other = domain(uid(8)), domain(uid(9))
    unknown = Occupancy(unknown=frozenset({HostResource.DEVICES}))
    before, _ = audited(host(), seen(replace(orphan, occupancy=unknown), other))
    steps = plan(before, seen(orphan, replace(other, occupancy=unknown)), frozenset())
    assert [step.key for step in steps] == [uid(9), uid(8)]


@pytest.mark.parametrize("observed", [seen(), seen(domain())])
@pytest.mark.parametrize("state", [active(), building()])
def test_no_audit_ends_or_trusts_a_claim_whose_record_was_damaged(state, observed):
    damaged = replace(state.claims[CLAIM], suspect=f"{DAMAGED}vcpus")
    state = state.fold(Change(cause="test", at=NOON, puts=(damaged,)))
    after, _ = audited(state, observed, {CLAIM})
    assert after.claims == state.claims


def test_incomplete_observation_concludes_nothing_from_absence():
    assert plan(building(), seen(complete=False), frozenset({CLAIM})) == ()
    assert plan(active(), seen(complete=False), frozenset()) == ()
    orphan, _ = audited(host(), seen(domain()))
    assert plan(orphan, seen(complete=False), frozenset()) == ()


def test_observation_of_the_host_alone_concludes_nothing_about_domains():
    state, _ = audited(building(), seen(domain(uid(9))))
    alone = replace(seen(topology=replace(TOPOLOGY, memory_mb=1)), has_domains=False)
    after, _ = audited(state, alone, lapsed=[CLAIM])
    assert (after.claims, after.domain_usages) == (state.claims, state.domain_usages)
    assert after.topology == alone.topology


MEMORY = {"memory_mb": {0: 512}, "pages": {0: {2048: 256}}, "mem_encryption": "amd-sev"}
OCCUPANCY = Occupancy(pcpus=frozenset({3}), devices=frozenset({GPU_0}), **MEMORY)


def test_what_is_unknown_of_an_orphan_is_at_least_what_it_was():
    orphan, _ = audited(host(), seen(replace(domain(), occupancy=OCCUPANCY)))
    after, _ = audited(orphan, seen(unreadable(domain())))
    (usage,) = after.domain_usages.values()
    assert usage.occupancy == replace(OCCUPANCY, unknown=frozenset(HostResource))
    assert (usage.vcpus, usage.memory_mb) == (2, 1024)
    assert plan(after, seen(unreadable(domain())), frozenset()) == ()
    readable, _ = audited(after, seen(domain()))
    assert readable.domain_usages[OWNER].occupancy == Occupancy()


def test_what_is_unknown_of_a_guest_is_not_missing():
    state = with_builds(host(numa=PINNING), request(2, 1024, owner=OWNER, extra_specs=PINNED))
    unknown = Occupancy(pcpus=frozenset({0}), unknown=frozenset({HostResource.CPUS}))
    after, _ = audited(state, seen(replace(domain(), occupancy=unknown)))
    observed = [(each.resource, each.observed) for each in drifts(after)]
    assert observed == [("host CPU 0", 1), ("cpus", 0)]


def test_guest_that_was_here_before_a_reboot_is_awaited_until_its_time_is_over():
    before = Reboot(at=NOON + timedelta(seconds=1), until=600)
    assert plan(active(), seen(), frozenset(), reboot=before) == ()
    assert before.awaited(active().claims.values(), {}) == {CLAIM}
    assert before.awaited(active().claims.values(), {OWNER}) == frozenset()
    (step,) = plan(active(), seen(), frozenset())
    assert step.transitions[0].verb == "suspect"


def test_no_audit_ends_the_claim_with_which_a_damaged_one_would_end():
    state = building()
    attached = {"uuid": uid(3), "kind": ATTACH, "suspect": f"{DAMAGED}vcpus"}
    devices = replace(state.claims[CLAIM], state=ACTIVE, expires_at=None, **attached)
    state = state.fold(Change(cause="test", at=NOON, puts=(devices,)))
    after, _ = audited(state, seen(), {CLAIM})
    assert set(after.claims) == {CLAIM, uid(3)}


def test_no_guest_is_awaited_without_a_reboot_or_after_the_time():
    assert reboot(None, NOON, 50.0, 600) is None
    assert reboot(NOON, NOON + timedelta(seconds=600), 50.0, 600) is None
