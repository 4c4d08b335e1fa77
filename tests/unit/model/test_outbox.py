"""Which changes have allocations that must be written."""

import pytest
from msgspec.structs import replace

from rtagent.model.change import Change
from rtagent.model.node_state import NodeState
from rtagent.model.policy import ManageAllocations, PlacementPolicy
from tests.support.hosts import NOON, consumer_allocations, host
from tests.support.move_host import GUEST, LARGE, Host, facts


def managing(state: NodeState | None = None, manage: str = "yes") -> NodeState:
    state = state or host()
    placement = PlacementPolicy(manage_allocations=ManageAllocations(manage))
    return replace(state, policy=replace(state.policy, placement=placement))


def written(node: Host) -> None:
    """Remove every row, as after a drain."""
    change = Change(cause="placement", at=NOON, written=tuple(node.state.outbox))
    node.state = node.state.fold(change)
    assert not node.state.outbox


def drained() -> Host:
    """A host with a guest whose allocations are written."""
    node = Host(managing())
    node.build()
    written(node)
    return node


@pytest.mark.parametrize("manage", ["yes", "strict"])
def test_a_claim_has_its_row_in_the_same_change(manage):
    node = Host(managing(manage=manage))
    claim = node.build()
    row = node.state.outbox[GUEST]
    assert (row.consumer_uuid, row.revision) == (GUEST, claim.revision - 1)  # its creation


def test_only_changes_of_allocations_have_rows():
    node = Host(managing())
    claim = node.build()
    row = node.state.outbox[GUEST]
    node.renew(claim)
    node.update("active")
    assert node.state.outbox[GUEST] == row
    written(node)
    node.update("paused")
    assert not node.state.outbox


def test_a_release_has_a_row_although_the_claim_is_gone():
    node = drained()
    (claim,) = node.state.claims_of(GUEST)
    node.release(claim)
    assert set(node.state.outbox) == {GUEST}
    assert consumer_allocations(node.state, GUEST) == {}


def test_a_resize_on_one_host_has_rows_of_both_consumers_at_each_change():
    node, move = drained(), facts()
    node.claim_move(move, LARGE)
    assert set(node.state.outbox) == {GUEST, move.uuid}
    written(node)
    node.start_move_out(move)
    node.finish_move(move)
    assert not node.state.outbox
    node.drop_at_source(move)
    assert set(node.state.outbox) == {move.uuid}
