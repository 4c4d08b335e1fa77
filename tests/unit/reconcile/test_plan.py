"""What an audit may conclude from an observation, and what it may not."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.model.change import Change
from rtagent.model.claim import ACTIVE, ATTACH, DAMAGED
from rtagent.model.domain_usage import HostResource, Occupancy
from rtagent.model.node_state import HOST
from rtagent.model.reboot import Reboot, reboot
from rtagent.reconcile.drift import drifts
from rtagent.reconcile.plan import plan
from tests.support.audits import (
    CLAIM,
    OWNER,
    active,
    audited,
    building,
    domain,
    seen,
    unreadable,
)
from tests.support.hosts import NOON, PINNED, PINNING, TOPOLOGY, call, host, request, uid
from tests.support.pci_hosts import GPU_0, GPU_1


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


def test_claims_do_not_account_for_a_domain_that_cannot_be_read():
    after, _ = audited(active(), seen(unreadable(domain())))
    assert after.domain_usages[OWNER].occupancy.unknown == frozenset(HostResource)
    assert (after.claims, after.usage) == (active().claims, active().usage)


OCCUPANCY = Occupancy(
    pcpus=frozenset({3}),
    memory_mb={0: 512},
    pages={0: {2048: 256}},
    devices=frozenset({GPU_0}),
    mem_encryption="amd-sev",
)


def test_what_is_unknown_of_an_orphan_is_at_least_what_it_was():
    orphan, _ = audited(host(), seen(replace(domain(), occupancy=OCCUPANCY)))
    after, _ = audited(orphan, seen(unreadable(domain())))
    (usage,) = after.domain_usages.values()
    assert usage.occupancy == replace(OCCUPANCY, unknown=frozenset(HostResource))
    assert (usage.vcpus, usage.memory_mb) == (2, 1024)
    assert plan(after, seen(unreadable(domain())), frozenset()) == ()
    readable, _ = audited(after, seen(domain()))
    assert readable.domain_usages[OWNER].occupancy == Occupancy()


def test_what_can_be_read_of_an_orphan_replaces_what_it_was():
    orphan, _ = audited(host(), seen(replace(domain(), occupancy=OCCUPANCY)))
    partly = Occupancy(devices=frozenset({GPU_1}), unknown=frozenset({HostResource.DEVICES}))
    after, _ = audited(orphan, seen(replace(domain(), occupancy=partly)))
    devices = frozenset({GPU_0, GPU_1})
    assert after.domain_usages[OWNER].occupancy == replace(partly, devices=devices)


def test_element_that_cannot_be_read_may_be_something_that_the_claim_has_not():
    unknown = Occupancy(unknown=frozenset({HostResource.DEVICES}))
    after, _ = audited(active(), seen(replace(domain(), occupancy=unknown)))
    assert after.domain_usages[OWNER].occupancy == unknown
    (drift,) = drifts(after)
    assert (drift.resource, drift.problem) == ("devices", "UsageUnknown")


def test_what_is_unknown_of_a_guest_is_not_missing():
    state = host(numa=PINNING)
    built = claims.instance_claim(
        state, call(), NOON, request(2, 1024, owner=OWNER, extra_specs=PINNED)
    )
    unknown = Occupancy(pcpus=frozenset({0}), unknown=frozenset({HostResource.CPUS}))
    after, _ = audited(state.fold(built.change), seen(replace(domain(), occupancy=unknown)))
    assert [(each.resource, each.observed) for each in drifts(after)] == [
        ("host CPU 0", 1),
        ("cpus", 0),
    ]


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
    ended = claims.release_claim(drifted, call("release_claim"), NOON, CLAIM)
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
