"""Each call of a move at each side: what it makes of the claims and of the record."""

import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.errors import ClaimConflict, ClaimExpired, ClaimNotFound, IllegalTransition
from rtagent.model.claim import EVACUATION, LIVE_MIGRATION, MIGRATION, MOVE_KINDS, RESIZE
from rtagent.model.migration import DEST, SOURCE
from tests.builders import call, uid
from tests.move_rules import GUEST, LARGE, SMALL, Host, facts

KINDS = sorted(MOVE_KINDS)
COLD = [RESIZE, MIGRATION]


def two_hosts():
    source, dest = Host.named(1), Host.named(2)
    source.runs()
    return source, dest


def test_a_cold_move_and_its_confirmation():
    source, dest = two_hosts()
    told = facts(source_compute="h1", dest_compute="h2")
    claim = dest.expects(told, LARGE)
    assert (claim.state, claim.kind, claim.migration_uuid) == ("incoming", RESIZE, told.uuid)
    assert claim.expires_at is not None
    assert (source.states, dest.states) == (["active"], ["incoming"])
    assert dest.status(told) == "pre-migrating"
    assert dest.usage.memory_mb == 3072

    out = source.starts_out(told)
    assert (out.state, out.migration_uuid) == ("outgoing", told.uuid)
    assert source.status(told) == "migrating"
    assert source.usage.memory_mb == 1024  # for a revert

    arrived = dest.finishes(told)
    assert (arrived.state, arrived.expires_at) == ("active", None)
    assert dest.status(told) == "finished"

    source.drops_source(told)
    assert (source.states, source.status(told)) == ([], "confirmed")
    assert source.usage.memory_mb == 0
    assert (dest.states, dest.status(told)) == (["active"], "finished")


def test_a_cold_move_and_its_revert():
    source, dest = two_hosts()
    told = facts(MIGRATION)
    dest.expects(told)
    source.starts_out(told)
    dest.finishes(told)
    dest.drops_dest(told)
    assert (dest.states, dest.status(told), dest.usage.memory_mb) == ([], "reverted", 0)
    assert source.takes_back(told).state == "active"
    assert source.status(told) == "reverted"


def test_a_live_migration():
    source, dest = two_hosts()
    told = facts(LIVE_MIGRATION)
    dest.expects(told)
    assert dest.status(told) == "preparing"
    dest.finishes(told)
    source.drops_source(told)
    assert (source.states, source.status(told)) == ([], "completed")
    assert (dest.states, dest.status(told)) == (["active"], "completed")


def test_an_evacuation():
    source, dest = two_hosts()
    told = facts(EVACUATION)
    dest.expects(told)
    dest.finishes(told)
    assert (dest.states, dest.status(told)) == (["active"], "done")
    source.drops_source(told, {})
    assert (source.states, source.status(told)) == ([], "completed")


@pytest.mark.parametrize("kind", KINDS)
def test_a_move_that_fails_before_it_arrives(kind):
    source, dest = two_hosts()
    told = facts(kind)
    dest.expects(told)
    if kind in COLD:
        source.starts_out(told)
    source.fails(told)
    dest.fails(told)
    assert (source.states, source.status(told)) == (["active"], "error")
    assert (dest.states, dest.status(told)) == ([], "error")
    assert dest.usage.memory_mb == 0


def test_who_has_which_part_is_in_the_record():
    source, dest = two_hosts()
    told = facts(source_compute="h1", source_node="h1.example", old_flavor=SMALL)
    claim = dest.expects(told, LARGE)
    source.starts_out(told)
    mine, theirs = dest.record(told), source.record(told)
    assert (mine.role, mine.claim_uuid, mine.instance_uuid) == (DEST, claim.uuid, GUEST)
    assert (theirs.role, theirs.claim_uuid) == (SOURCE, source.state.claims_of(GUEST)[0].uuid)
    assert (mine.dest_compute, mine.dest_node) == ("h2", "h2.example")
    assert mine.dest_host == "192.0.2.2"
    assert (mine.source_compute, mine.source_node) == ("h1", "h1.example")
    assert (mine.old_flavor, mine.new_flavor) == (SMALL, LARGE)
    assert (mine.node_uuid, theirs.node_uuid) == (dest.state.node.uuid, source.state.node.uuid)


def test_without_a_migration_the_agent_makes_one():
    dest = Host.named(2)
    claim = dest.expects(None, LARGE)
    record = dest.record(facts(uuid=claim.migration_uuid))
    assert (record.uuid, record.migration_type) == (claim.uuid, RESIZE)
    assert record.source_compute is None
    told = facts(uuid=record.uuid)
    assert dest.finishes(told).state == "active"


def test_the_status_that_is_passed_is_where_the_record_begins():
    dest = Host.named(2)
    told = facts(status="accepted")
    dest.expects(told)
    assert dest.status(told) == "accepted"


@pytest.mark.parametrize("times", [1, 2, 3])
def test_every_step_may_be_made_again(times):
    source, dest = two_hosts()
    told = facts()
    claim = dest.expects(told)
    for _ in range(times):
        source.starts_out(told)
    for _ in range(times):
        assert dest.finishes(told).uuid == claim.uuid
    for _ in range(times):
        dest.drops_dest(told)
    for _ in range(times):
        assert source.takes_back(told).state == "active"
    assert (source.states, dest.states) == (["active"], [])
    assert (source.status(told), dest.status(told)) == ("reverted", "reverted")


@pytest.mark.parametrize("kind", KINDS)
def test_a_confirmation_may_come_again_and_changes_nothing(kind):
    source, dest = two_hosts()
    told = facts(kind)
    dest.expects(told)
    dest.finishes(told)
    source.drops_source(told, {})
    before = source.state
    source.drops_source(told, {})
    assert source.state.claims == before.claims
    assert source.state.migrations == before.migrations


def test_the_two_ends_of_a_move_in_either_order():
    """Revert is two calls, to two hosts, and nobody says which comes first."""
    for order in ("dest first", "source first"):
        source, dest = two_hosts()
        told = facts()
        dest.expects(told)
        source.starts_out(told)
        dest.finishes(told)
        steps = [lambda d=dest, t=told: d.drops_dest(t), lambda s=source, t=told: s.takes_back(t)]
        for step in steps if order == "dest first" else reversed(steps):
            step()
        assert (source.states, dest.states) == (["active"], []), order


def test_a_confirmation_after_the_revert_is_refused():
    source, dest = two_hosts()
    told = facts()
    dest.expects(told)
    source.starts_out(told)
    source.takes_back(told)
    with pytest.raises(IllegalTransition, match="is reverted at its source"):
        source.drops_source(told)
    assert source.states == ["active"]


def test_a_revert_after_the_confirmation_must_not_start_the_guest():
    source, _ = two_hosts()
    told = facts()
    source.starts_out(told)
    source.drops_source(told)
    with pytest.raises(ClaimExpired):
        source.takes_back(told)


@pytest.mark.parametrize("end", ["abort", "release", "expire"])
def test_a_guest_must_not_be_started_whose_claim_has_ended(end):
    dest = Host.named(2)
    told = facts()
    dest.ends(dest.expects(told), end)
    assert dest.status(told) == "error"
    with pytest.raises(ClaimExpired):
        dest.finishes(told)


def test_after_a_failure_neither_side_can_be_confirmed():
    source, dest = two_hosts()
    told = facts(LIVE_MIGRATION)
    dest.expects(told)
    source.fails(told)
    with pytest.raises(IllegalTransition, match="is error"):
        source.drops_source(told)
    assert source.states == ["active"]


def test_what_is_over_cannot_be_taken_back_at_the_destination():
    _, dest = two_hosts()
    for kind in (LIVE_MIGRATION, EVACUATION):
        told, owner = facts(kind), uid()
        dest.expects(told, owner=owner)
        dest.finishes(told, owner)
        for verb in (dest.drops_dest, dest.fails):
            with pytest.raises(IllegalTransition):
                verb(told, owner)


def test_verbs_of_moves_that_were_never_heard_of():
    source = Host.named(1)
    told = facts()
    for verb in (source.starts_out, source.finishes, source.takes_back):
        with pytest.raises(ClaimNotFound, match=f"instance {GUEST} has no claim here"):
            verb(told)
    source.drops_source(told)
    assert (source.states, source.status(told)) == ([], "confirmed")


def test_what_was_dropped_where_nothing_was_is_not_dropped_when_something_is():
    source = Host.named(1)
    told = facts(EVACUATION)
    source.drops_source(told, {})
    source.runs()
    source.drops_source(told, {})
    assert source.states == ["active"]


def test_what_comes_after_its_own_revert_or_failure_is_refused():
    for end in ("drops_dest", "fails"):
        dest = Host.named(2)
        told = facts()
        getattr(dest, end)(told)
        with pytest.raises(ClaimConflict, match=r"migration .* is (reverted|error) here"):
            dest.refuses(told)


def test_a_step_of_the_other_side_names_what_is_legal():
    _, dest = two_hosts()
    told = facts()
    dest.expects(told)
    for verb in (dest.starts_out, dest.takes_back):
        with pytest.raises(IllegalTransition, match=r"at its destination.*legal: finish_move"):
            verb(told)


def test_an_incoming_claim_is_activated_by_nothing_but_the_end_of_its_move():
    dest = Host.named(2)
    claim = dest.expects(facts())
    with pytest.raises(IllegalTransition, match="is incoming: activate_claim is not legal"):
        claims.activate(dest.state, claim.uuid, call("activate_claim"), dest.now)
    renewed = dest.decided(claims.renew, claim.uuid, asked=call("renew_claim"))[0]
    assert renewed.expires_at != claim.expires_at
    dest.ends(claim, "abort")
    assert dest.states == []


def test_an_outgoing_claim_is_no_build_to_be_aborted():
    source, _ = two_hosts()
    out = source.starts_out(facts())
    with pytest.raises(IllegalTransition, match="is outgoing: abort_instance_claim is not legal"):
        source.ends(out, "abort")
    source.ends(out, "release")


def test_suspicion_ends_when_the_guest_leaves():
    source, _ = two_hosts()
    (claim,) = source.state.claims_of(GUEST)
    source.state = replace(
        source.state,
        claims=source.state.claims.set(claim.uuid, replace(claim, suspect="missing")),
    )
    assert source.starts_out(facts()).suspect is None
