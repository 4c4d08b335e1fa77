"""What is deleted for an instance that has left."""

import pytest

from rtagent.errors import IllegalTransition
from rtagent.model.departure import Departure
from rtagent.placement.departures import departed_consumers
from tests.support.agents import GUEST, LARGE, Agent, facts

EVACUATED, MIGRATED, SHELVED = Departure


@pytest.fixture
def agent():
    return Agent()


@pytest.mark.parametrize("departure", list(Departure))
def test_an_instance_without_a_claim_has_nothing_to_keep(agent, departure):
    assert departed_consumers(agent.state, GUEST, departure) == (GUEST,)
    agent.release(agent.run())
    assert departed_consumers(agent.state, GUEST, departure) == (GUEST,)


@pytest.mark.parametrize("departure", list(Departure))
def test_a_claim_of_the_instance_keeps_its_allocation(agent, departure):
    claim = agent.build()
    with pytest.raises(IllegalTransition, match=f"{claim.uuid} is building") as refused:
        departed_consumers(agent.state, GUEST, departure)
    assert refused.value.kwargs["verb"] == departure.method


def test_the_migration_of_a_guest_that_may_return_keeps_its_allocation(agent):
    agent.run()
    move = facts()
    agent.move("start_move_out", move)
    for departure in Departure:
        with pytest.raises(IllegalTransition, match="is outgoing"):
            departed_consumers(agent.state, GUEST, departure)
    agent.move("drop_move_claim_at_source", move)
    for departure in Departure:
        assert departed_consumers(agent.state, GUEST, departure) == (GUEST, move.uuid)


def test_after_a_resize_on_one_host_the_migration_gives_its_allocation_up(agent):
    agent.run()
    move = facts()
    agent.claim_move(move, LARGE)
    agent.move("start_move_out", move)
    agent.move("finish_move", move)
    with pytest.raises(IllegalTransition, match="is outgoing"):
        departed_consumers(agent.state, GUEST, MIGRATED)
    agent.move("drop_move_claim_at_source", move)
    assert departed_consumers(agent.state, GUEST, MIGRATED) == (move.uuid,)
    for departure in (EVACUATED, SHELVED):
        with pytest.raises(IllegalTransition, match="is active"):
            departed_consumers(agent.state, GUEST, departure)


def test_a_reverted_resize_leaves_the_instance_its_claim(agent):
    agent.run()
    move = facts()
    agent.claim_move(move, LARGE)
    agent.move("start_move_out", move)
    agent.move("drop_move_claim_at_dest", move)
    agent.move("finish_revert", move)
    with pytest.raises(IllegalTransition):
        departed_consumers(agent.state, GUEST, MIGRATED)
