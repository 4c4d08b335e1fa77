"""The destination of a move: claims, records, refusals, arrival."""

import pytest

from rtagent import claims
from rtagent.errors import ClaimConflict, ClaimExpired, IllegalTransition
from rtagent.lifecycle.consequences import granted
from rtagent.lifecycle.transitions import transition
from rtagent.model.change import Event
from rtagent.model.claim import LIVE_MIGRATION
from rtagent.model.migration import SourceFacts
from rtagent.model.request import Flavor
from tests.support.hosts import request
from tests.support.move_host import GUEST, LARGE, Host, facts, in_transit
from tests.support.pci_hosts import GPU_0, GPU_1, gpu, record


def expire(state, asked, now, claim):
    """The end of a claim by an audit."""
    after = transition(claim, "expire", state, now)
    return granted(state, asked, now, Event(before=claim, after=after, action="expire"))


@pytest.mark.parametrize(
    "end", [Host.abort, Host.release, lambda here, claim: here.granted(expire, claim)]
)
def test_finish_move_is_refused_as_expired_after_the_claim_has_ended(end):
    dest = Host.named(2)
    migration = facts()
    end(dest, dest.claim_move(migration))
    assert dest.status(migration) == "error"
    with pytest.raises(ClaimExpired):
        dest.finish_move(migration)


def test_move_claim_is_refused_after_its_own_revert_or_failure():
    for end in ("drop_at_dest", "drop"):
        dest = Host.named(2)
        migration = facts()
        getattr(dest, end)(migration)
        with pytest.raises(ClaimConflict, match=r"migration .* is (reverted|error) here"):
            dest.try_move(migration)


def test_one_migration_makes_one_claim():
    _, dest, migration = in_transit()
    with pytest.raises(ClaimConflict, match=dest.state.claims_of(GUEST)[0].uuid):
        dest.try_move(migration)
    dest.finish_move(migration)
    with pytest.raises(ClaimConflict, match=f"migration {migration.uuid} is finished here"):
        dest.try_move(migration)


def test_instance_that_is_being_built_is_not_moved():
    here = Host()
    (claim,) = here.granted(claims.instance_claim, request(owner=GUEST))
    with pytest.raises(ClaimConflict, match=f"the building claim {claim.uuid}"):
        here.try_move(facts(), LARGE)
    with pytest.raises(IllegalTransition, match="is building"):
        here.start_move_out(facts())


def test_claim_maps_the_devices_at_the_source_to_those_at_the_destination():
    dest = Host.named(2).with_devices(record([gpu(GPU_1)]))
    source = SourceFacts(devices={"gpu": (GPU_0,)})
    flavor = Flavor(vcpus=1, memory_mb=64, extra_specs={"pci_passthrough:alias": "gpu:1"})
    claim = dest.claim_move(facts(LIVE_MIGRATION), flavor, source=source)
    assert claim.pci_replaced["gpu"].before == (GPU_0,)
    assert claim.pci_replaced["gpu"].after == (GPU_1,)


def with_page_size(size):
    return Flavor(vcpus=1, memory_mb=64, extra_specs={"hw:mem_page_size": size})


def test_live_migration_is_refused_where_its_page_size_is_unavailable():
    dest = Host.named(2)
    source = SourceFacts(page_sizes=(1024 * 1024,))
    refused = dest.try_move(facts(LIVE_MIGRATION), with_page_size("any"), source=source)
    assert refused.reasons


def test_new_record_has_the_status_that_the_caller_passes():
    dest = Host.named(2)
    migration = facts(status="accepted")
    dest.claim_move(migration)
    assert dest.status(migration) == "accepted"
