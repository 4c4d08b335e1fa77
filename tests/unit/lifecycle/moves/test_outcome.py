"""Moves of which a caller states the outcome alone."""

import pytest
from msgspec.structs import replace

from rtagent.errors import ClaimExpired, ClaimNotFound, IllegalTransition
from rtagent.model.migration import DEST, SOURCE
from tests.support.move_host import (
    GUEST,
    LARGE,
    SMALL,
    Host,
    facts,
    in_transit,
    source_and_dest,
)
from tests.support.pci_hosts import GPU_0, GPU_1, gpu, record


def nodes(source=1, dest=2, kind="resize"):
    """A move between two hosts of `Host.named`."""
    return facts(kind, source_node=f"h{source}.example", dest_node=f"h{dest}.example")


def resized():
    """A host on which a claim for another size was made, and nothing since."""
    here = Host.named(1)
    here.build()
    move = nodes(1, 1)
    here.claim_move(move, LARGE)
    return here, move


@pytest.mark.parametrize(
    ("outcome", "source_states", "dest_states", "statuses"),
    [
        ("arrived", ["outgoing"], ["active"], ("migrating", "finished")),
        ("confirmed", [], ["active"], ("confirmed", "confirmed")),
        ("reverted", ["active"], [], ("reverted", "reverted")),
        ("failed", ["active"], [], ("error", "error")),
    ],
)
@pytest.mark.parametrize("started", [True, False])
def test_each_node_gets_to_the_outcome(outcome, source_states, dest_states, statuses, started):
    source, dest = source_and_dest()
    move = nodes()
    dest.claim_move(move, LARGE)
    if started:
        source.start_move_out(move)
    for _ in range(2):
        source.settle(move, outcome)
        dest.settle(move, outcome)
        assert (source.states, dest.states) == (source_states, dest_states)
        assert (source.status(move), dest.status(move)) == statuses
    assert (source.record(move).role, dest.record(move).role) == (SOURCE, DEST)


@pytest.mark.parametrize(
    ("outcome", "states", "flavor", "status"),
    [
        ("arrived", ["outgoing", "active"], None, "finished"),
        ("confirmed", ["active"], LARGE, "confirmed"),
        ("reverted", ["active"], SMALL, "reverted"),
        ("failed", ["active"], SMALL, "error"),
    ],
)
def test_resize_on_one_host_gets_to_the_outcome_in_one_step(outcome, states, flavor, status):
    here, move = resized()
    for _ in range(2):
        here.settle(move, outcome)
        assert (here.states, here.status(move)) == (states, status)
    if flavor is not None:
        assert here.state.claims_of(GUEST)[0].flavor == flavor
        assert here.usage.memory_mb == flavor.memory_mb


@pytest.mark.parametrize("last", ["confirmed", "reverted"])
def test_outcome_follows_an_arrival(last):
    source, dest, move = in_transit()
    for host in (source, dest):
        host.settle(move, "arrived")
    for host in (source, dest):
        host.settle(move, last)
    assert (source.states, dest.states) == (
        ([], ["active"]) if last == "confirmed" else (["active"], [])
    )


@pytest.mark.parametrize(
    ("first", "then"),
    [("confirmed", "reverted"), ("reverted", "confirmed"), ("failed", "arrived")],
)
def test_contradicting_outcome_is_refused(first, then):
    here, move = resized()
    here.settle(move, first)
    with pytest.raises(IllegalTransition, match="settle_move is not legal"):
        here.settle(move, then)


def test_claim_at_the_destination_is_not_taken_for_the_source_s():
    """The guest was adopted at its destination, without its migration."""
    dest = Host.named(2)
    dest.build()
    move = nodes()
    dest.settle(move, "confirmed")
    assert dest.states == ["active"]
    assert dest.record(move).role == DEST


def test_claim_of_a_guest_that_came_back_is_not_released_by_a_late_repeat():
    source, _, move = in_transit()
    source.settle(move, "confirmed")
    source.build()
    source.settle(move, "confirmed")
    assert source.states == ["active"]


def test_guest_without_a_claim_cannot_arrive():
    with pytest.raises(ClaimNotFound):
        Host.named(2).settle(nodes(), "arrived")
    _, dest, move = in_transit()
    dest.release(dest.state.claims_of(GUEST)[0])
    with pytest.raises((ClaimExpired, IllegalTransition)):
        dest.settle(move, "arrived")


def test_outcome_of_a_move_without_claims_is_recorded():
    host, move = Host.named(2), nodes()
    host.settle(move, "reverted")
    assert host.status(move) == "reverted"
    with pytest.raises(IllegalTransition):
        host.settle(move, "confirmed")


def test_claim_that_is_outgoing_for_another_move_stays():
    source, dest, first = in_transit()
    source.settle(first, "failed")
    second = nodes()
    source.start_move_out(second)
    source.settle(first, "failed")
    assert source.states == ["outgoing"]
    other = nodes()
    source.settle(other, "failed")
    assert source.states == ["outgoing"]
    assert dest.states == ["incoming"]


@pytest.mark.parametrize("kind", ["migration", "live-migration", "evacuation"])
def test_every_type_of_move_is_confirmed(kind):
    source, dest = source_and_dest()
    move = nodes(kind=kind)
    dest.claim_move(move)
    for host in (dest, source):
        host.settle(move, "arrived")
        host.settle(move, "confirmed")
    assert (source.states, dest.states) == ([], ["active"])
    assert not source.usage.memory_mb


def test_devices_of_the_side_that_ends_are_free():
    here = Host.named(1).with_devices(record([gpu(GPU_0), gpu(GPU_1)]))
    here.build()
    move = nodes(1, 1)
    here.claim_move(move, replace(LARGE, extra_specs={"pci_passthrough:alias": "gpu:2"}))
    assert set(here.allocated()) == {GPU_0, GPU_1}
    here.settle(move, "reverted")
    assert not here.allocated()
