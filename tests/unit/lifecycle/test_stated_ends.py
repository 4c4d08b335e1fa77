"""Ends of claims and of devices that the embedding program states."""

import pytest

from rtagent.claims import release_claims
from rtagent.errors import ClaimNotFound
from rtagent.lifecycle.attach import give_back_devices
from rtagent.model.claim import ACTIVE, BUILDING, PCI
from tests.support.device_states import addresses, attached, built, device_host, running
from tests.support.hosts import NOON, call, uid
from tests.support.pci_hosts import GPU_0, GPU_1, vf


def released(state, owner, uuids=None, **more):
    decision = release_claims(state, call("release"), NOON, owner, uuids, **more)
    new = state.fold(decision.change)
    new.check()
    return new, decision


def gave_back(state, owner, *devices, claim_uuid=None):
    decision = give_back_devices(state, call("give_back"), NOON, owner, devices, claim_uuid)
    new = state.fold(decision.change)
    new.check()
    return new, decision


def test_all_claims_of_an_owner_are_released_at_once():
    state, main = built(device_host(), "gpu:1")
    state, _ = attached(running(state, main), main, "vf")
    state, other = built(state)
    state, decision = released(state, main.owner_id, reason="deleted by the conductor")
    assert [*state.claims] == [other.uuid]
    assert not state.units
    assert {event.reason for event in decision.change.events} == {"deleted by the conductor"}


def test_release_is_idempotent_and_may_precede_the_creation():
    state, main = built(device_host())
    state, _ = released(state, main.owner_id, [main.uuid])
    _, decision = released(state, main.owner_id, [main.uuid])
    assert [each.operation_id for each in decision.change.operations if each.ended] == [main.uuid]
    assert released(state, uid())[0].claims == state.claims


def test_claim_of_another_owner_is_not_found():
    state, main = built(device_host())
    with pytest.raises(ClaimNotFound, match=main.uuid):
        release_claims(state, call(), NOON, uid(), [main.uuid])
    with pytest.raises(ClaimNotFound, match=main.uuid):
        give_back_devices(state, call(), NOON, uid(), [GPU_0], main.uuid)


@pytest.mark.parametrize("active", [True, False])
def test_main_claim_gives_back_one_device_and_keeps_the_rest(active):
    state, main = built(device_host(), "gpu:2,vf:1")
    state = running(state, main) if active else state
    before = state.claims[main.uuid]
    state, decision = gave_back(state, main.owner_id, GPU_0)
    left = state.claims[main.uuid]
    assert addresses(left) == [GPU_1, vf(0)]
    assert (left.state, left.expires_at) == (before.state, before.expires_at)
    assert left.state == (ACTIVE if active else BUILDING)
    assert set(state.units) == {(PCI, GPU_1), (PCI, vf(0))}
    (event,) = decision.change.events
    assert (event.action, event.reason) == ("give_back", f"gave back {GPU_0}")
    assert addresses(built(state, "gpu:1")[1]) == [GPU_0]


def test_main_claim_without_devices_stays_and_attach_claim_ends():
    state, main = built(device_host(), "gpu:1")
    state, claim = attached(state, main, "gpu", "vf")
    state, _ = gave_back(state, main.owner_id, GPU_0, GPU_1)
    assert addresses(state.claims[main.uuid]) == []
    assert addresses(state.claims[claim.uuid]) == [vf(0)]
    state, decision = gave_back(state, main.owner_id, vf(0))
    assert [*state.claims] == [main.uuid]
    assert [event.action for event in decision.change.events] == ["release"]
