"""What an audit may conclude from an observation, and what it may not."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.model.change import Change
from rtagent.model.claim import ACTIVE, ATTACH, DAMAGED
from rtagent.model.node_state import HOST
from rtagent.model.reboot import Reboot, reboot
from rtagent.reconcile.plan import plan
from tests.support.audits import CLAIM, OWNER, active, audited, building, domain, seen
from tests.support.hosts import NOON, TOPOLOGY, call, host, uid


def test_audit_of_an_unchanged_host_has_no_steps():
    assert plan(active(), seen(domain()), frozenset()) == ()


def test_building_claim_is_activated_when_its_domain_appears():
    after, _ = audited(building(), seen(domain()))
    assert after.claims[CLAIM].state == ACTIVE
    assert after.claims[CLAIM].expires_at is None


@pytest.mark.parametrize("running", [True, False])
def test_domain_that_is_only_defined_is_present(running):
    assert plan(active(), seen(domain(running=running)), frozenset()) == ()


def test_active_claim_without_a_domain_is_suspect_and_still_counted():
    after, _ = audited(active(), seen())
    assert after.claims[CLAIM].suspect
    assert after.usage == active().usage


def test_suspect_claim_is_trusted_when_its_domain_is_back():
    missed, _ = audited(active(), seen())
    after, _ = audited(missed, seen(domain()))
    assert after.claims[CLAIM].suspect is None


def test_building_claim_without_a_domain_is_left_alone():
    assert plan(building(), seen(), frozenset()) == ()


def test_lapsed_claim_ends_after_a_complete_observation_without_its_domain():
    after, outcome = audited(building(), seen(), {CLAIM})
    assert not after.claims
    assert len(outcome.applied) == 1


def test_lapsed_claim_does_not_end_while_its_domain_is_here():
    after, _ = audited(building(), seen(domain()), {CLAIM})
    assert after.claims[CLAIM].state == ACTIVE


@pytest.mark.parametrize("observed", [seen(), seen(domain())])
@pytest.mark.parametrize("state", [active(), building()])
def test_no_audit_ends_or_trusts_a_claim_whose_record_was_damaged(state, observed):
    damaged = replace(state.claims[CLAIM], suspect=f"{DAMAGED}vcpus")
    state = state.fold(Change(cause="test", at=NOON, puts=(damaged,)))
    after, _ = audited(state, observed, {CLAIM})
    assert after.claims == state.claims


def test_no_audit_ends_the_claim_with_which_a_damaged_one_would_end():
    state = building()
    attached = {"uuid": uid(3), "kind": ATTACH, "suspect": f"{DAMAGED}vcpus"}
    devices = replace(state.claims[CLAIM], state=ACTIVE, expires_at=None, **attached)
    state = state.fold(Change(cause="test", at=NOON, puts=(devices,)))
    after, _ = audited(state, seen(), {CLAIM})
    assert set(after.claims) == {CLAIM, uid(3)}


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


def test_unreadable_domain_is_present_and_keeps_its_recorded_usage():
    unreadable = replace(domain(), vcpus=None, memory_mb=None)
    assert plan(active(), seen(unreadable), frozenset()) == ()
    orphan, _ = audited(host(), seen(domain()))
    assert plan(orphan, seen(unreadable), frozenset()) == ()


def test_foreign_domain_counts_until_it_is_gone():
    counted, _ = audited(host(), seen(domain(vcpus=3, memory_mb=500)))
    assert (counted.usage.vcpus, counted.usage.memory_mb) == (3, 500)
    after, _ = audited(counted, seen())
    assert (after.usage, after.domain_usages) == (host().usage, host().domain_usages)


def test_usage_of_a_foreign_domain_follows_its_starts_stops_and_changes():
    state, _ = audited(host(), seen(domain(running=False)))
    assert state.usage.vcpus == 0
    for running, vcpus, expected in ((True, 2, 2), (True, 4, 4), (False, 4, 0)):
        state, _ = audited(state, seen(domain(vcpus=vcpus, running=running)))
        assert state.usage.vcpus == expected


def test_drift_counts_until_the_difference_ends():
    drifted, _ = audited(active(), seen(domain(vcpus=5)))
    assert drifted.usage.vcpus == 5
    assert drifted.claims[CLAIM].vcpus == 2, "never silently repaired"
    after, _ = audited(drifted, seen(domain()))
    assert (after.usage.vcpus, after.domain_usages) == (2, host().domain_usages)


def test_release_of_a_drifting_claim_leaves_foreign_usage():
    drifted, _ = audited(active(), seen(domain(vcpus=5)))
    ended = claims.end(drifted, CLAIM, "release", call("release_claim"), NOON)
    assert drifted.fold(ended.change).usage.vcpus == 5


def test_changed_topology_is_recorded_and_an_unreadable_one_is_kept():
    smaller = replace(TOPOLOGY, cpus=frozenset({0}))
    after, outcome = audited(active(), seen(domain(), topology=smaller))
    assert after.topology == smaller
    assert outcome.applied == (HOST,)
    assert after.usage.vcpus == 2, "what is held stays held"
    assert plan(active(), seen(domain(), topology=None), frozenset()) == ()


def test_guest_that_was_here_before_a_reboot_is_awaited_until_its_time_is_over():
    before = Reboot(at=NOON + timedelta(seconds=1), until=600)
    assert plan(active(), seen(), frozenset(), reboot=before) == ()
    assert before.awaited(active().claims.values(), {}) == {CLAIM}
    assert before.awaited(active().claims.values(), {OWNER}) == frozenset()
    (step,) = plan(active(), seen(), frozenset())
    assert step.transitions[0].verb == "suspect"


def test_guest_of_a_claim_that_was_made_after_a_reboot_is_not_awaited():
    (step,) = plan(active(), seen(), frozenset(), reboot=Reboot(at=NOON, until=600))
    assert step.transitions[0].verb == "suspect"


@pytest.mark.parametrize(("passed", "left"), [(0, 600), (599, 1), (-5, 600)])
def test_guests_are_awaited_for_the_rest_of_the_time(passed: int, left: int):
    found = reboot(NOON, NOON + timedelta(seconds=passed), 50.0, 600)
    assert found == Reboot(at=NOON, until=50.0 + left)


def test_no_guest_is_awaited_without_a_reboot_or_after_the_time():
    assert reboot(None, NOON, 50.0, 600) is None
    assert reboot(NOON, NOON + timedelta(seconds=600), 50.0, 600) is None
