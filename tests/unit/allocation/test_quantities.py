"""Quantities of the resource classes that provider files offer."""

from decimal import Decimal

import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.errors import InvariantViolated
from rtagent.lifecycle.moves.destination import move_claim
from rtagent.model.consumers import consumer_allocations
from rtagent.model.decision import ReasonCode, Refused
from rtagent.model.migration import MoveRequest
from rtagent.model.policy import AdditionalInventory, PlacementPolicy
from rtagent.model.provider_names import provider_uuid
from tests.support.device_states import after, released, running
from tests.support.hosts import NODE, NOON, call, host, request, with_claims

FOO = "CUSTOM_FOO"


def offer(suffix="", **other):
    """Offer 12 units: (10 - 2) * 1.5."""
    values = {
        "total": 10,
        "reserved": 2,
        "min_unit": 1,
        "max_unit": 10,
        "step_size": 1,
        "allocation_ratio": Decimal("1.5"),
        **other,
    }
    return AdditionalInventory(suffix=suffix, resource_class=FOO, **values)


def offering(*offered, **policy):
    return host(placement=PlacementPolicy(additional=offered), **policy)


def wanting(quantity, **other):
    return request(1, 64, extra_specs={f"resources:{FOO}": str(quantity)}, **other)


def claimed(state, quantity, **other):
    return after(state, claims.instance_claim(state, call(), NOON, wanting(quantity, **other)))


def refusal(state, quantity):
    decision = claims.instance_claim(state, call(), NOON, wanting(quantity))
    assert isinstance(decision, Refused)
    (reason,) = decision.reasons
    return reason.code, reason.requested, reason.available


def test_claim_holds_an_quantity_until_it_ends():
    state, claim = claimed(offering(offer()), 3)
    (quantity,) = claim.quantities
    assert (quantity.provider, quantity.resource_class, quantity.quantity) == (NODE.uuid, FOO, 3)
    assert state.usage.quantities == {("", FOO): 3}
    assert consumer_allocations(state, claim.owner_id)[NODE.uuid][FOO] == 3
    assert not released(state, claim).usage.quantities


def test_numbers_of_request_groups_and_of_the_request_add_up():
    specs = {"resources1:CUSTOM_FOO": "1", "resources_b:CUSTOM_FOO": "2", "group_policy": "none"}
    asked = request(1, 64, extra_specs=specs, extra_resource={FOO: 4})
    _, claim = after(
        offering(offer()), claims.instance_claim(offering(offer()), call(), NOON, asked)
    )
    assert [each.quantity for each in claim.quantities] == [7]


def test_claims_together_are_limited_by_reserve_and_ratio():
    state, _ = claimed(offering(offer()), 10)
    assert refusal(state, 3) == (ReasonCode.INSUFFICIENT, 3, 2)
    state, _ = claimed(state, 2)
    assert refusal(state, 1) == (ReasonCode.INSUFFICIENT, 1, 0)


@pytest.mark.parametrize(
    ("limits", "quantity", "expected"),
    [
        ({"max_unit": 4}, 5, (ReasonCode.EXCEEDS_HOST, 5, 4)),
        ({"max_unit": 20}, 11, (ReasonCode.EXCEEDS_HOST, 11, 10)),
        ({"min_unit": 3}, 2, (ReasonCode.BELOW_MINIMUM, 2, 3)),
        ({"step_size": 4}, 6, (ReasonCode.NOT_A_MULTIPLE, 6, 4)),
    ],
)
def test_one_claim_respects_the_limits_of_the_inventory(limits, quantity, expected):
    assert refusal(offering(offer(**limits)), quantity) == expected


def test_first_provider_with_enough_gives_the_whole_quantity():
    state = offering(offer(), offer("RACK"))
    state, claim = claimed(state, 8)
    assert [each.suffix for each in claim.quantities] == [""]
    state, claim = claimed(state, 8)
    assert claim.quantities[0].provider == provider_uuid(NODE, state.policy.placement, "RACK")
    assert refusal(state, 8) == (ReasonCode.INSUFFICIENT, 8, 4)


def test_class_that_nobody_offers_is_refused_by_its_name():
    assert refusal(host(), 1) == (ReasonCode.NOT_OFFERED, 1, 0)


def test_claims_keep_what_is_offered_no_more():
    state, claim = claimed(offering(offer()), 8)
    state = with_claims(host(), [claim])
    state.check()
    assert state.usage.quantities == {("", FOO): 8}
    state = with_claims(offering(offer()), [claim])
    assert refusal(state, 5) == (ReasonCode.INSUFFICIENT, 5, 4)


@pytest.mark.parametrize(("reuse", "expected"), [(False, 7), (True, 4)])
def test_both_claims_of_a_resize_on_one_host_count(reuse, expected):
    state, claim = claimed(offering(offer(), same_host_resize_reuse=reuse), 3)
    state = running(state, claim)
    build = wanting(4, owner=claim.owner_id)
    move = MoveRequest(build=build, migration="resize", old_flavor=claim.flavor)
    state, _ = after(state, move_claim(state, call("resize_claim"), NOON, move))
    assert state.usage.quantities == {("", FOO): expected}


def test_usage_that_differs_from_the_claims_violates_an_invariant():
    state, _ = claimed(offering(offer()), 3)
    with pytest.raises(InvariantViolated):
        replace(state, usage=replace(state.usage, quantities={})).check()


@pytest.mark.parametrize(
    ("policy", "numbers", "expected"),
    [
        ("none", (2, 3), {"": 5}),
        ("isolate", (2, 3), {"": 3, "_x": 2}),
        ("none", (9, 9), {"": 9, "_x": 9}),
    ],
)
def test_numbered_groups_come_from_one_provider_each(policy, numbers, expected):
    specs = {f"resources{n}:{FOO}": str(number) for n, number in enumerate(numbers)}
    wanted = request(1, 64, extra_specs={**specs, "group_policy": policy})
    state = offering(offer(), offer("_x"))
    _, claim = after(state, claims.instance_claim(state, call(), NOON, wanted))
    assert {each.suffix: each.quantity for each in claim.quantities} == expected


def test_numbered_groups_that_do_not_fit_together_are_refused_with_what_does():
    specs = {f"resources{n}:{FOO}": "9" for n in range(3)}
    wanted = request(1, 64, extra_specs={**specs, "group_policy": "isolate"})
    decision = claims.instance_claim(offering(offer(), offer("_x")), call(), NOON, wanted)
    assert isinstance(decision, Refused)
    (reason,) = decision.reasons
    assert (reason.requested, reason.available) == (27, 18)
    assert "with group_policy=isolate" in str(reason)
