"""The source of a move: the guest leaves, and comes back."""

import pytest
from msgspec.structs import replace

from rtagent.errors import ClaimExpired, IllegalTransition
from tests.support.move_host import GUEST, facts, source_and_dest


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
