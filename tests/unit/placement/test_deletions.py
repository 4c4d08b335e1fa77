"""What is deleted for an instance that has left, and which consumers an operator may delete."""

import pytest
from msgspec.structs import replace

from rtagent.errors import ConsumerInUse, IllegalTransition, InvariantViolated
from rtagent.model.consumers import DeletionReason
from rtagent.placement.allocation_audit import check_deletable, unneeded_consumers
from tests.support.agents import GUEST, LARGE, OTHER, Agent, facts

EVACUATED, MIGRATED, SHELVED = DeletionReason


@pytest.fixture
def agent():
    return Agent()


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


# -- by an operator -------------------------------------------------------------------------------


def user(agent, consumer):
    """What keeps the consumer; "": nothing does."""
    try:
        check_deletable(agent.state, consumer)
    except ConsumerInUse as error:
        return error.kwargs["user"]
    return ""


def test_a_consumer_with_a_claim_or_a_domain_is_in_use(agent):
    assert user(agent, GUEST) == ""
    claim = agent.run()
    assert user(agent, GUEST) == f"its active claim {claim.uuid}"
    agent.release(claim)
    agent.audit()
    assert user(agent, GUEST).startswith("its domain ")
    agent.world.destroy(GUEST)
    agent.audit()
    assert user(agent, GUEST) == ""


def test_a_migration_is_in_use_until_it_has_ended(agent):
    agent.run()
    move = facts()
    agent.claim_move(move, LARGE)
    agent.move("start_move_out", move)
    assert user(agent, move.uuid) == f"the migrating resize of instance {GUEST}"
    agent.move("drop_move_claim_at_dest", move)
    assert user(agent, move.uuid).startswith("its outgoing claim ")
    agent.move("finish_revert", move)
    assert user(agent, move.uuid) == ""
    assert user(agent, GUEST)


def test_nothing_is_deleted_while_it_is_not_known_what_is_claimed(agent):
    state = replace(agent.state, unknown=("a claim has an unreadable uuid",))
    with pytest.raises(InvariantViolated):
        check_deletable(state, OTHER)
