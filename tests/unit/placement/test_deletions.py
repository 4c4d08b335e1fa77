"""What is deleted for an instance that has left."""

import pytest

from rtagent.errors import IllegalTransition
from rtagent.model.consumers import DeletionReason
from rtagent.placement.deletions import unneeded_consumers
from tests.support.agents import GUEST, LARGE, Agent, facts

EVACUATED, MIGRATED, SHELVED = DeletionReason


@pytest.fixture
def agent():
    return Agent()


@pytest.mark.parametrize("reason", list(DeletionReason))
def test_an_instance_without_a_claim_has_nothing_to_keep(agent, reason):
    assert unneeded_consumers(agent.state, GUEST, reason) == (GUEST,)
    agent.release(agent.run())
    assert unneeded_consumers(agent.state, GUEST, reason) == (GUEST,)


@pytest.mark.parametrize("reason", list(DeletionReason))
def test_a_claim_of_the_instance_keeps_its_allocation(agent, reason):
    claim = agent.build()
    with pytest.raises(IllegalTransition, match=f"{claim.uuid} is building") as refused:
        unneeded_consumers(agent.state, GUEST, reason)
    assert refused.value.kwargs["verb"] == reason.method


def test_the_migration_of_a_guest_that_may_return_keeps_its_allocation(agent):
    agent.run()
    move = facts()
    agent.move("start_move_out", move)
    for reason in DeletionReason:
        with pytest.raises(IllegalTransition, match="is outgoing"):
            unneeded_consumers(agent.state, GUEST, reason)
    agent.move("drop_move_claim_at_source", move)
    for reason in DeletionReason:
        assert unneeded_consumers(agent.state, GUEST, reason) == (GUEST, move.uuid)


def test_after_a_resize_on_one_host_the_migration_gives_its_allocation_up(agent):
    agent.run()
    move = facts()
    agent.claim_move(move, LARGE)
    agent.move("start_move_out", move)
    agent.move("finish_move", move)
    with pytest.raises(IllegalTransition, match="is outgoing"):
        unneeded_consumers(agent.state, GUEST, MIGRATED)
    agent.move("drop_move_claim_at_source", move)
    assert unneeded_consumers(agent.state, GUEST, MIGRATED) == (move.uuid,)
    for reason in (EVACUATED, SHELVED):
        with pytest.raises(IllegalTransition, match="is active"):
            unneeded_consumers(agent.state, GUEST, reason)


def test_a_reverted_resize_leaves_the_instance_its_claim(agent):
    agent.run()
    move = facts()
    agent.claim_move(move, LARGE)
    agent.move("start_move_out", move)
    agent.move("drop_move_claim_at_dest", move)
    agent.move("finish_revert", move)
    with pytest.raises(IllegalTransition):
        unneeded_consumers(agent.state, GUEST, MIGRATED)
