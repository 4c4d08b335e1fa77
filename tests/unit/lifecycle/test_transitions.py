"""The life cycle: which transitions are legal, and what an illegal one names."""

import pytest

from rtagent import claims
from rtagent.errors import IllegalTransition
from rtagent.lifecycle.transitions import LIFE_CYCLE, transition
from rtagent.model.claim import LEASED_STATES, LIVE_STATES, RELEASED
from tests.support.hosts import NOON, call, host, request


@pytest.fixture
def building():
    """A state with one building claim, and the claim."""
    state = host()
    granted = claims.instance_claim(state, call(), NOON, request())
    return state.fold(granted.change), granted.claims[0]


def test_illegal_transition_names_the_state_and_the_legal_methods(building):
    state, claim = building
    active = transition(claim, "activate", state, NOON)
    with pytest.raises(IllegalTransition) as caught:
        transition(active, "expire", state, NOON)
    assert "is active" in caught.value.message
    assert "(legal: abort_instance_claim, activate_claim, drop_move_claim, " in caught.value.message
    assert "expire" not in caught.value.kwargs["legal"]
    assert "pci_devices" not in caught.value.kwargs["legal"]


@pytest.mark.parametrize("verb", sorted(LIFE_CYCLE))
def test_no_verb_leads_out_of_the_released_state(building, verb):
    state, claim = building
    released = transition(claim, "release", state, NOON)
    with pytest.raises(IllegalTransition):
        transition(released, verb, state, NOON)


@pytest.mark.parametrize("verb", sorted(LIFE_CYCLE))
def test_every_verb_leads_between_known_states(verb):
    assert LIFE_CYCLE[verb].keys() <= LIVE_STATES
    assert set(LIFE_CYCLE[verb].values()) <= LIVE_STATES | {RELEASED}


def test_only_building_and_incoming_claims_have_a_lease(building):
    state, claim = building
    assert claim.expires_at is not None
    assert transition(claim, "renew", state, NOON).expires_at is not None
    assert transition(claim, "activate", state, NOON).expires_at is None
    assert transition(claim, "release", state, NOON).expires_at is None
    assert {"building", "incoming"} == LEASED_STATES
