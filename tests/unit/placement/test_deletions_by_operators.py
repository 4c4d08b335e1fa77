"""Which consumers an operator may delete."""

import pytest
from msgspec.structs import replace

from rtagent.errors import ConsumerInUse, InvariantViolated
from rtagent.placement.deletions import check_deletable
from tests.support.agents import GUEST, LARGE, OTHER, Agent, facts


@pytest.fixture
def agent():
    return Agent()


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
