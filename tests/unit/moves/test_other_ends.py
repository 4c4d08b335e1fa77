"""Moves that end by something else than their own calls; moves of one instance after each other."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from rtagent import moves
from rtagent.errors import ClaimConflict, IllegalTransition
from rtagent.model.change import Change
from rtagent.model.claim import EVACUATION, LIVE_MIGRATION, RESIZE
from rtagent.model.flavor import Flavor
from rtagent.model.move import SourceFacts
from rtagent.model.observation import Domain
from tests.builders import PINNED, PINNING, uid
from tests.move_rules import GUEST, LARGE, Host, facts
from tests.pci_hosts import GPU_0, GPU_1, gpu, record


def moving():
    """A guest that has left one host and arrived on the other."""
    source, dest = Host.named(1), Host.named(2)
    source.runs()
    told = facts()
    dest.expects(told, LARGE)
    source.starts_out(told)
    return source, dest, told


@pytest.mark.parametrize("vm_state", ["deleted", "shelved_offloaded"])
def test_an_instance_that_is_gone_holds_nothing_whatever_move_it_was_in(vm_state):
    source, dest, told = moving()
    for host in (source, dest):
        host.hears(vm_state)
        assert (host.states, host.usage.memory_mb) == ([], 0)
    # What was kept for a revert is given up, as a confirmation does; what never arrived has failed.
    assert (source.status(told), dest.status(told)) == ("confirmed", "error")


def test_a_finished_move_of_an_instance_that_is_deleted_stays_finished():
    _, dest, told = moving()
    dest.finishes(told)
    dest.hears("deleted")
    assert dest.status(told) == "finished"


def test_a_resize_on_one_host_whose_instance_is_deleted():
    for finished, status in ((True, "confirmed"), (False, "error")):
        here = Host()
        here.runs()
        told = facts()
        here.expects(told, LARGE)
        here.starts_out(told)
        if finished:
            here.finishes(told)
        here.hears("deleted")
        assert (here.states, here.status(told)) == ([], status)


@pytest.mark.parametrize(
    ("vm_state", "task_state"),
    [("soft-delete", None), ("shelved_offloaded", "spawning"), ("shelved_offloaded", "unshelving")],
)
def test_what_is_soft_deleted_or_comes_back_from_the_shelf_keeps_its_claims(vm_state, task_state):
    source, dest, _ = moving()
    source.hears(vm_state, task_state)
    dest.hears(vm_state, task_state)
    assert (source.states, dest.states) == (["outgoing"], ["incoming"])


def test_the_operator_may_release_either_side():
    source, dest, told = moving()
    source.ends(source.state.claims_of(GUEST)[0])
    dest.ends(dest.state.claims_of(GUEST)[0])
    assert (source.status(told), dest.status(told)) == ("confirmed", "error")


def test_a_migration_by_itself_holds_nothing():
    source, _, told = moving()
    source.drops_source(told)
    assert source.usage.memory_mb == 0
    assert not source.state.owners


# -- one move after another ---------------------------------------------------------------------


def there_and_back():
    """A guest that was moved away from the first host, and back."""
    source, dest, first = moving()
    dest.finishes(first)
    source.drops_source(first)
    second = facts()
    source.expects(second)
    dest.starts_out(second)
    source.finishes(second)
    dest.drops_source(second)
    return source, dest, first


def test_a_confirmation_that_comes_again_after_the_guest_is_back_does_not_release_it():
    source, _, first = there_and_back()
    source.drops_source(first)
    assert source.states == ["active"]


def test_what_is_remembered_for_that_is_forgotten_with_the_operations():
    source, dest, first = there_and_back()
    assert moves.forget(source.state, source.now - timedelta(days=1), source.now) is None
    change = moves.forget(source.state, source.now + timedelta(seconds=1), source.now)
    assert change.migration_removals == (first.uuid,)
    # That of the claim which is there stays, however old it is.
    assert len(source.state.fold(change).migrations) == 1
    gone = moves.forget(dest.state, dest.now + timedelta(seconds=1), dest.now)
    assert len(gone.migration_removals) == 2  # nothing of the guest is there any more


def test_the_steps_of_an_older_move_leave_the_next_one_alone():
    source, _, first = moving()
    source.takes_back(first)
    second = facts()
    source.starts_out(second)
    assert source.takes_back(first).state == "outgoing"  # as it is now
    with pytest.raises(IllegalTransition, match="is reverted"):
        source.starts_out(first)
    source.fails(first)
    assert source.states == ["outgoing"]


def test_a_move_that_was_never_heard_of_does_not_take_back_what_another_has_taken_out():
    source, _, first = moving()
    with pytest.raises(IllegalTransition, match=f"is outgoing for migration {first.uuid}"):
        source.takes_back(facts())
    source.fails(facts())
    assert source.states == ["outgoing"]


def test_a_claim_that_has_moved_on_is_not_reverted_by_the_move_that_made_it():
    _, dest, first = moving()
    dest.finishes(first)
    dest.starts_out(facts())
    for verb in (dest.drops_dest, dest.fails, dest.finishes):
        with pytest.raises(IllegalTransition, match="is outgoing for migration"):
            verb(first)


def test_a_migration_is_one_instances_and_of_one_type():
    source, _, told = moving()
    with pytest.raises(ClaimConflict, match="is the resize of instance"):
        source.drops_source(told, owner=uid())
    with pytest.raises(ClaimConflict, match="is the resize of instance"):
        source.drops_source(facts(EVACUATION, told.uuid))


def test_one_migration_makes_one_claim():
    _, dest, told = moving()
    with pytest.raises(ClaimConflict, match=dest.state.claims_of(GUEST)[0].uuid):
        dest.refuses(told)
    dest.finishes(told)
    with pytest.raises(ClaimConflict, match=f"migration {told.uuid} is finished here"):
        dest.refuses(told)


# -- evacuations --------------------------------------------------------------------------------


def left_behind(seen):
    source = Host.named(1)
    source.runs(Flavor(vcpus=3, memory_mb=2048))
    source.drops_source(facts(EVACUATION), seen)
    return source


def domain(**more):
    return Domain(uuid=GUEST, name="guest", active=True, vcpus=3, memory_mb=2048, **more)


def test_a_guest_that_still_runs_where_it_was_evacuated_from_is_somebody_elses_from_then_on():
    source = left_behind({GUEST: domain()})
    assert source.states == []
    assert source.state.holdings[GUEST].vcpus == 3
    assert source.usage.vcpus == 3


def test_one_that_was_not_there_when_the_host_was_last_seen_holds_nothing():
    assert left_behind({}).usage.vcpus == 0


@pytest.mark.parametrize(
    "seen", [None, {GUEST: Domain(uuid=GUEST, name="g", active=True, vcpus=None, memory_mb=None)}]
)
def test_of_one_that_could_not_be_seen_all_that_was_claimed_stays_counted(seen):
    source = Host.named(1, numa=PINNING)
    source.runs(Flavor(vcpus=2, memory_mb=512, extra_specs=PINNED))
    (claim,) = source.state.claims_of(GUEST)
    source.drops_source(facts(EVACUATION), seen)
    held = source.state.holdings[GUEST]
    assert held.occupancy.pcpus == claim.numa_topology.taken
    assert held.memory_mb == 512


@pytest.mark.parametrize("seen", [None, {}])
def test_what_it_was_known_to_use_stays_counted_until_the_host_is_seen(seen):
    source = Host.named(1)
    source.runs()
    grown = replace(domain(), vcpus=5).holding()
    source.state = source.state.fold(Change(cause="audit", at=source.now, holdings=(grown,)))
    source.drops_source(facts(EVACUATION), seen)
    assert source.usage.vcpus == 5


def test_what_was_confirmed_is_free_at_once_whatever_was_seen():
    source, _, told = moving()
    source.drops_source(told, {GUEST: domain()})
    assert source.usage.vcpus == 0


def test_a_guest_that_comes_back_before_its_old_host_was_told():
    """Evacuated, and evacuated back: the old claim is dropped, the new one is not."""
    here = Host.named(1)
    old = here.runs()
    away, back = facts(EVACUATION), facts(EVACUATION)
    new = here.expects(back)
    here.finishes(back)
    here.drops_source(away, {})
    here.drops_source(away, {})
    assert old.uuid not in here.state.claims
    assert here.state.claims_of(GUEST)[0].uuid == new.uuid


def test_one_that_has_come_back_and_goes_on_leaves_with_its_own_claim():
    here = Host.named(1)
    old = here.runs()
    back, on = facts(EVACUATION), facts()
    new = here.expects(back)
    here.finishes(back)
    assert here.starts_out(on).uuid == new.uuid
    here.drops_source(facts(EVACUATION), {})
    assert old.uuid not in here.state.claims
    here.drops_source(on)
    assert here.states == []


# -- devices, pages -----------------------------------------------------------------------------


def test_what_takes_the_place_of_the_sources_devices_is_in_the_claim():
    dest = Host.named(2).offering(record([gpu(GPU_1)]))
    source = SourceFacts(devices={"gpu": (GPU_0,)})
    flavor = Flavor(vcpus=1, memory_mb=64, extra_specs={"pci_passthrough:alias": "gpu:1"})
    claim = dest.expects(facts(LIVE_MIGRATION), flavor, source=source)
    assert claim.pci_replaced["gpu"].before == (GPU_0,)
    assert claim.pci_replaced["gpu"].after == (GPU_1,)


def paged(size):
    return Flavor(vcpus=1, memory_mb=64, extra_specs={"hw:mem_page_size": size})


def test_a_live_migration_keeps_its_page_size_and_others_choose_anew():
    for kind, size in ((LIVE_MIGRATION, 4), (RESIZE, 2048)):
        dest = Host.named(2)
        claim = dest.expects(facts(kind), paged("any"), source=SourceFacts(page_sizes=(4,)))
        assert claim.numa_topology.cells[0].pagesize == size


def test_a_live_migration_is_refused_where_its_page_size_is_not_to_be_had():
    dest = Host.named(2)
    source = SourceFacts(page_sizes=(1024 * 1024,))
    refused = dest.refuses(facts(LIVE_MIGRATION), paged("any"), source=source)
    assert refused.reasons
