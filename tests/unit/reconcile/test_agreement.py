"""An audit compares only what has changed, and concludes what one that compares all would."""

from itertools import product

import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.model.domain_usage import Occupancy
from rtagent.model.node_state import NodeState
from rtagent.model.observation import Observation
from rtagent.reconcile.plan import Agreement, plan
from tests.support import device_states
from tests.support.audits import CLAIM, active, audited, building, domain, seen, unreadable
from tests.support.hosts import NOON, call, host, request, uid
from tests.support.interpreter import function_calls

BOUND = replace(domain(), occupancy=Occupancy(pcpus=frozenset({3})))
WITH_MDEV = replace(domain(), occupancy=Occupancy(mdevs=frozenset({uid(7)})))
UNREADABLE = unreadable(domain())


def drifting() -> NodeState:
    """The owner's claim is active, and its domain is recorded as one that differs."""
    after, _ = audited(active(), seen(BOUND))
    return after


STATES = [host(), building(), active(), drifting(), audited(active(), seen())[0]]
DOMAINS = (domain(), domain(running=False), domain(vcpus=4), BOUND, WITH_MDEV, UNREADABLE)
OBSERVATIONS = [
    *(seen(complete=complete) for complete in (True, False)),
    *(seen(one) for one in DOMAINS),
    seen(domain(), complete=False),
    seen(domain(), domain(uuid=uid(9))),
]
AUDITS = list(product(STATES, OBSERVATIONS))


@pytest.mark.parametrize("first", AUDITS)
def test_audit_after_another_has_the_steps_of_a_full_one(first: tuple[NodeState, Observation]):
    for state, observation in AUDITS:
        agreement = Agreement()
        plan(*first, frozenset(), agreement=agreement)
        again = plan(state, observation, frozenset({CLAIM}), agreement=agreement)
        assert again == plan(state, observation, frozenset({CLAIM}))


def test_attach_claim_whose_device_is_not_there_expires_although_nothing_changed():
    state, main = device_states.built(device_states.device_host())
    state, added = device_states.attached(device_states.running(state, main), main, "gpu")
    observation = device_states.seen(state, device_states.guest(main))
    agreement = Agreement()
    assert plan(state, observation, frozenset(), agreement=agreement) == ()
    (step,) = plan(state, observation, frozenset({added.uuid}), agreement=agreement)
    assert [transition.verb for transition in step.transitions] == ["expire"]


def test_domains_that_have_gone_are_forgotten():
    state, agreement = active(), Agreement()
    owner = state.claims[CLAIM].owner_id
    pair = state.claims_of(owner), domain()
    plan(state, seen(domain()), frozenset(), agreement=agreement)
    assert agreement.has(owner, *pair)
    plan(state, seen(), frozenset(), agreement=agreement)
    assert not agreement.has(owner, *pair)


def test_guests_that_stay_as_they_are_cost_little():
    domains = [domain(uuid=uid(number)) for number in range(100, 150)]
    state = host(cpu_allocation_ratio=100, ram_allocation_ratio=100)
    for number, each in enumerate(domains):
        asked = call(operation_id=uid(1000 + number))
        built = claims.instance_claim(state, asked, NOON, request(2, 1024, owner=each.uuid))
        state = state.fold(built.change)
    agreement, observation = Agreement(), seen(*domains)
    state, _ = audited(state, observation)

    def again() -> None:
        plan(state, observation, frozenset(), agreement=agreement)

    assert function_calls(again) > 4 * function_calls(again)
