"""The steps of a move after its claim: the guest leaves, arrives for good, or comes back."""

import pytest
from msgspec.structs import replace

from rtagent.errors import ClaimExpired, ClaimNotFound, IllegalTransition
from rtagent.model.claim import EVACUATION, MIGRATION, MOVE_TYPES, RESIZE
from rtagent.model.observation import NEVER_OBSERVED, Domain
from rtagent.model.request import Flavor
from tests.support.audits import unreadable
from tests.support.hosts import PINNED, PINNING
from tests.support.move_host import GUEST, SMALL, Host, facts, source_and_dest


def test_finish_revert_after_the_confirmation_is_refused_as_expired():
    source, _ = source_and_dest()
    migration = facts()
    source.start_move_out(migration)
    source.drop_at_source(migration)
    with pytest.raises(ClaimExpired):
        source.finish_revert(migration)
    source.drop(migration)
    assert (source.states, source.status(migration)) == ([], "confirmed")


def test_call_of_the_other_side_names_the_legal_methods():
    _, dest = source_and_dest()
    migration = facts()
    dest.claim_move(migration)
    for verb in (dest.start_move_out, dest.finish_revert):
        with pytest.raises(IllegalTransition, match=r"at its destination.*legal: finish_move"):
            verb(migration)


KINDS = sorted(MOVE_TYPES)
COLD = [RESIZE, MIGRATION]
RUNNING = Domain(uuid=GUEST, name="g", active=True, vcpus=2, memory_mb=512)


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
    source.finish_revert(migration)
    assert source.status(migration) == "error"
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


def test_confirmation_after_the_revert_is_refused():
    source, dest = source_and_dest()
    migration = facts()
    dest.claim_move(migration)
    source.start_move_out(migration)
    source.finish_revert(migration)
    with pytest.raises(IllegalTransition, match="is reverted at its source"):
        source.drop_at_source(migration)
    assert source.states == ["active"]


def test_calls_of_an_unknown_move_are_not_found_except_its_confirmation():
    source = Host.named(1)
    migration = facts()
    for verb in (source.start_move_out, source.finish_move, source.finish_revert):
        with pytest.raises(ClaimNotFound, match=f"instance {GUEST} has no claim here"):
            verb(migration)
    source.drop_at_source(migration)
    assert (source.states, source.status(migration)) == ([], "confirmed")


def evacuated_source(domains, flavor=SMALL, **policy):
    """A host that an evacuated guest has left, and the claim that the guest had there."""
    source = Host.named(1, **policy)
    claim = source.build(flavor)
    source.drop_at_source(facts(EVACUATION), domains)
    assert source.states == []
    return source, claim


@pytest.mark.parametrize("domains", [{}, {GUEST: replace(RUNNING, vcpus=3)}])
def test_evacuated_guest_uses_what_was_observed_of_it_last(domains):
    source, _ = evacuated_source(domains)
    assert source.usage.vcpus == (3 if domains else 0)


@pytest.mark.parametrize("domains", [NEVER_OBSERVED, {GUEST: unreadable(RUNNING)}])
def test_evacuated_guest_that_was_not_observed_counts_as_claimed(domains):
    specs = {**PINNED, "hw:mem_page_size": "2MB"}
    flavor = Flavor(vcpus=2, memory_mb=512, extra_specs=specs)
    source, claim = evacuated_source(domains, flavor, numa=PINNING)
    usage = source.state.domain_usages[GUEST]
    (cell,) = claim.numa_topology.cells
    assert usage.memory_mb == 512
    assert usage.occupancy.pcpus == cell.taken
    assert usage.occupancy.memory_mb == {cell.id: 512}
    assert usage.occupancy.pages == {cell.id: {2048: 256}}
