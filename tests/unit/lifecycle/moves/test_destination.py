"""The destination of a move: claims, records, refusals, arrival."""

import pytest

from rtagent import claims
from rtagent.errors import ClaimConflict, ClaimExpired, IllegalTransition
from rtagent.lifecycle.consequences import granted
from rtagent.lifecycle.transitions import transition
from rtagent.model.change import Event
from rtagent.model.claim import LIVE_MIGRATION, RESIZE
from rtagent.model.migration import SourceFacts
from rtagent.model.request import Flavor
from tests.support.hosts import call, request
from tests.support.move_host import GUEST, LARGE, Host, facts, in_transit, source_and_dest
from tests.support.pci_hosts import GPU_0, GPU_1, gpu, record


def test_cold_move_is_claimed_finished_and_confirmed():
    source, dest = source_and_dest()
    migration = facts(source_compute="h1", dest_compute="h2")
    claim = dest.claim_move(migration, LARGE)
    assert (claim.state, claim.kind, claim.migration_uuid) == ("incoming", RESIZE, migration.uuid)
    assert claim.expires_at is not None
    assert (source.states, dest.states) == (["active"], ["incoming"])
    assert dest.status(migration) == "pre-migrating"
    assert dest.usage.memory_mb == 3072

    out = source.start_move_out(migration)
    assert (out.state, out.migration_uuid) == ("outgoing", migration.uuid)
    assert source.status(migration) == "migrating"
    assert source.usage.memory_mb == 1024  # for a revert

    arrived = dest.finish_move(migration)
    assert (arrived.state, arrived.expires_at) == ("active", None)
    assert dest.status(migration) == "finished"

    source.drop_at_source(migration)
    assert (source.states, source.status(migration)) == ([], "confirmed")
    assert source.usage.memory_mb == 0
    assert (dest.states, dest.status(migration)) == (["active"], "finished")


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


def test_incoming_claim_is_activated_only_by_the_end_of_its_move():
    dest = Host.named(2)
    claim = dest.claim_move(facts())
    with pytest.raises(IllegalTransition, match="is incoming: activate_claim is not legal"):
        claims.activate_claim(dest.state, call("activate_claim"), dest.now, claim.uuid)
    assert dest.renew(claim).expires_at != claim.expires_at
    dest.abort(claim)
    assert dest.states == []


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
