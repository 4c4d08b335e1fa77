"""The steps of a move after its claim: the guest leaves, arrives for good, or comes back."""

import pytest
from msgspec.structs import replace

from rtagent.errors import ClaimExpired, ClaimNotFound, IllegalTransition
from rtagent.model.change import Change
from rtagent.model.claim import EVACUATION, LIVE_MIGRATION, MIGRATION, MOVE_TYPES, RESIZE
from rtagent.model.observation import NEVER_OBSERVED, Domain
from rtagent.model.request import Flavor
from tests.support.audits import unreadable
from tests.support.hosts import PINNED, PINNING, uid
from tests.support.move_host import GUEST, Host, facts, in_transit, source_and_dest


def test_suspect_claim_is_not_suspect_once_the_guest_leaves():
    source, _ = source_and_dest()
    (claim,) = source.state.claims_of(GUEST)
    source.state = replace(
        source.state,
        claims=source.state.claims.set(claim.uuid, replace(claim, suspect="missing")),
    )
    assert source.start_move_out(facts()).suspect is None


def test_outgoing_claim_can_be_released_and_not_aborted():
    source, _ = source_and_dest()
    out = source.start_move_out(facts())
    with pytest.raises(IllegalTransition, match="is outgoing: abort_instance_claim is not legal"):
        source.abort(out)
    source.release(out)


def test_finish_revert_after_the_confirmation_is_refused_as_expired():
    source, _ = source_and_dest()
    migration = facts()
    source.start_move_out(migration)
    source.drop_at_source(migration)
    with pytest.raises(ClaimExpired):
        source.finish_revert(migration)


def test_call_of_the_other_side_names_the_legal_methods():
    _, dest = source_and_dest()
    migration = facts()
    dest.claim_move(migration)
    for verb in (dest.start_move_out, dest.finish_revert):
        with pytest.raises(IllegalTransition, match=r"at its destination.*legal: finish_move"):
            verb(migration)


KINDS = sorted(MOVE_TYPES)
COLD = [RESIZE, MIGRATION]
UNREADABLE = unreadable(Domain(uuid=GUEST, name="g", active=True, vcpus=2, memory_mb=512))


@pytest.mark.parametrize("kind", KINDS)
def test_move_that_fails_before_arrival_leaves_the_guest_at_its_source(kind):
    source, dest = source_and_dest()
    migration = facts(kind)
    dest.claim_move(migration)
    if kind in COLD:
        source.start_move_out(migration)
    source.drop(migration)
    dest.drop(migration)
    assert (source.states, source.status(migration)) == (["active"], "error")
    assert (dest.states, dest.status(migration)) == ([], "error")
    assert dest.usage.memory_mb == 0


def test_every_call_can_be_repeated():
    source, dest = source_and_dest()
    migration = facts()
    claim = dest.claim_move(migration)
    for _ in range(2):
        source.start_move_out(migration)
    for _ in range(2):
        assert dest.finish_move(migration).uuid == claim.uuid
    for _ in range(2):
        dest.drop_at_dest(migration)
    for _ in range(2):
        assert source.finish_revert(migration).state == "active"
    assert (source.states, dest.states) == (["active"], [])
    assert (source.status(migration), dest.status(migration)) == ("reverted", "reverted")


@pytest.mark.parametrize("kind", KINDS)
def test_repeated_confirmation_changes_nothing(kind):
    source, dest = source_and_dest()
    migration = facts(kind)
    dest.claim_move(migration)
    dest.finish_move(migration)
    source.drop_at_source(migration, {})
    before = source.state
    source.drop_at_source(migration, {})
    assert source.state.claims == before.claims
    assert source.state.migrations == before.migrations


def test_revert_ends_the_same_in_either_order_of_the_two_hosts():
    """A revert is one call to each host, in any order."""
    for order in ("dest first", "source first"):
        source, dest = source_and_dest()
        migration = facts()
        dest.claim_move(migration)
        source.start_move_out(migration)
        dest.finish_move(migration)
        steps = [dest.drop_at_dest, source.finish_revert]
        for step in steps if order == "dest first" else reversed(steps):
            step(migration)
        assert (source.states, dest.states) == (["active"], []), order


def test_confirmation_after_the_revert_is_refused():
    source, dest = source_and_dest()
    migration = facts()
    dest.claim_move(migration)
    source.start_move_out(migration)
    source.finish_revert(migration)
    with pytest.raises(IllegalTransition, match="is reverted at its source"):
        source.drop_at_source(migration)
    assert source.states == ["active"]


def test_confirmation_after_a_failure_is_refused():
    source, dest = source_and_dest()
    migration = facts(LIVE_MIGRATION)
    dest.claim_move(migration)
    source.drop(migration)
    with pytest.raises(IllegalTransition, match="is error"):
        source.drop_at_source(migration)
    assert source.states == ["active"]


def test_completed_move_cannot_be_reverted_or_failed_at_the_destination():
    _, dest = source_and_dest()
    for kind in (LIVE_MIGRATION, EVACUATION):
        migration, owner = facts(kind), uid()
        dest.claim_move(migration, owner=owner)
        dest.finish_move(migration, owner)
        for verb in (dest.drop_at_dest, dest.drop):
            with pytest.raises(IllegalTransition):
                verb(migration, owner)


def test_calls_of_an_unknown_move_are_not_found_except_its_confirmation():
    source = Host.named(1)
    migration = facts()
    for verb in (source.start_move_out, source.finish_move, source.finish_revert):
        with pytest.raises(ClaimNotFound, match=f"instance {GUEST} has no claim here"):
            verb(migration)
    source.drop_at_source(migration)
    assert (source.states, source.status(migration)) == ([], "confirmed")


def test_repeated_confirmation_does_not_release_a_claim_made_since():
    source = Host.named(1)
    migration = facts(EVACUATION)
    source.drop_at_source(migration, {})
    source.build()
    source.drop_at_source(migration, {})
    assert source.states == ["active"]


def evacuated_source(domains):
    source = Host.named(1)
    source.build(Flavor(vcpus=3, memory_mb=2048))
    source.drop_at_source(facts(EVACUATION), domains)
    return source


def domain(**more):
    return Domain(uuid=GUEST, name="guest", active=True, vcpus=3, memory_mb=2048, **more)


def test_evacuated_guest_that_still_runs_here_becomes_foreign_usage():
    source = evacuated_source({GUEST: domain()})
    assert source.states == []
    assert source.state.domain_usages[GUEST].vcpus == 3
    assert source.usage.vcpus == 3


def test_evacuated_guest_that_was_absent_when_last_observed_uses_nothing():
    assert evacuated_source({}).usage.vcpus == 0


@pytest.mark.parametrize("domains", [NEVER_OBSERVED, {GUEST: UNREADABLE}])
def test_evacuated_guest_that_was_not_observed_counts_as_claimed(domains):
    source = Host.named(1, numa=PINNING)
    source.build(Flavor(vcpus=2, memory_mb=512, extra_specs=PINNED))
    (claim,) = source.state.claims_of(GUEST)
    source.drop_at_source(facts(EVACUATION), domains)
    usage = source.state.domain_usages[GUEST]
    assert usage.occupancy.pcpus == claim.numa_topology.taken
    assert usage.memory_mb == 512


@pytest.mark.parametrize("domains", [NEVER_OBSERVED, {}])
def test_recorded_usage_of_an_evacuated_guest_stays_until_the_next_observation(domains):
    source = Host.named(1)
    source.build()
    grown = replace(domain(), vcpus=5).domain_usage()
    source.state = source.state.fold(Change(cause="audit", at=source.now, domain_usages=(grown,)))
    source.drop_at_source(facts(EVACUATION), domains)
    assert source.usage.vcpus == 5


def test_confirmed_resize_frees_the_source_at_once_whatever_was_observed():
    source, _, migration = in_transit()
    source.drop_at_source(migration, {GUEST: domain()})
    assert source.usage.vcpus == 0
