"""Devices that are used and have no allocation."""

import pytest
from msgspec.structs import replace

from rtagent.errors import PlacementUnavailable
from rtagent.model.change import Change
from rtagent.model.claim import DAMAGED
from rtagent.model.provider_names import device_suffix, provider_uuid
from rtagent.placement.allocation_audit import AllocationVerdict, published_classes
from rtagent.placement.healing import is_healable
from tests.support.agents import GUEST, OTHER, POLICY, facts, with_devices
from tests.support.device_states import ONE_TIME
from tests.support.device_states import policy as pci_policy
from tests.support.hosts import NOON
from tests.support.pci_hosts import GPU_0, GPU_1

GPU = "CUSTOM_PCI_10DE_13F1"
ONE, TWO = with_devices("gpu:1"), with_devices("gpu:2")


def gpu_node(make_node, **pci):
    """Return a node with two GPUs."""
    reported = pci_policy(report_in_placement=True, **pci)
    return make_node(policy=replace(POLICY, pci=reported), gpus=(GPU_0, GPU_1))


@pytest.fixture
def node(make_node):
    return gpu_node(make_node)


def provider(node, address):
    state = node.agent.state
    return provider_uuid(state.node, state.policy.placement, device_suffix(address))


def devices(node, *consumers):
    """The addresses of the devices that these consumers have in Placement."""
    parts = {name for each in consumers for name in node.parts(each)}
    return {address for address in (GPU_0, GPU_1) if provider(node, address) in parts}


def test_a_running_guest_gets_the_allocation_of_its_device(node):
    claim = node.agent.run(ONE)
    node.allocate(GUEST, {"VCPU": 1, "MEMORY_MB": 512})
    assert node.run().healed == (GUEST,)
    device = provider(node, claim.pci[0].address)
    assert node.parts(GUEST) == {node.uuid: {"VCPU": 1, "MEMORY_MB": 512}, device: {GPU: 1}}
    assert node.run().healed == ()
    assert node.settle().counts == {AllocationVerdict.MATCHING: 1}


def test_a_guest_without_any_allocation_gets_that_of_its_device_only(node):
    node.agent.run(ONE)
    assert node.run().healed == (GUEST,)
    assert node.uuid not in node.parts(GUEST)
    assert node.api.consumer(GUEST)["consumer_type"] == "INSTANCE"


def test_a_device_allocated_from_another_provider_is_a_difference_and_not_missing(node):
    claim = node.agent.run(ONE)
    (other,) = {GPU_0, GPU_1} - {claim.pci[0].address}
    node.allocate(GUEST, {GPU: 1}, provider(node, other))
    assert node.settle().healed == ()
    assert devices(node, GUEST) == {other}


def test_both_claims_of_a_resize_on_one_host_have_their_devices_until_it_ends(node):
    node.agent.run(ONE)
    move = facts()
    node.agent.claim_move(move, TWO, old=ONE)
    assert node.run().healed == ()
    node.agent.move("start_move_out", move)
    node.agent.move("finish_move", move)
    node.run()
    assert devices(node, GUEST, move.uuid) == {GPU_0, GPU_1}
    assert node.run().healed == ()
    node.agent.move("drop_move_claim_at_source", move)
    node.settle()
    node.run()
    assert devices(node, GUEST) == {GPU_0, GPU_1}
    assert node.parts(move.uuid) == {}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("request_", ["inventories", "reshape"])
def test_after_an_outage_at_any_request_the_next_audit_heals(make_node, request_, when):
    """The reservation of a device for one use is lifted for its allocation."""

    def gone():
        raise PlacementUnavailable("gone")

    node = gpu_node(make_node, specs=ONE_TIME)
    device = provider(node, node.agent.run(ONE).pci[0].address)
    node.sync()
    reserved = node.api.inventories(device)["inventories"][GPU]["reserved"]
    getattr(node.meddler, when)[request_] = gone
    with pytest.raises(PlacementUnavailable):
        node.run()
    node.run()
    assert node.parts(GUEST) == {device: {GPU: 1}}
    assert node.api.inventories(device)["inventories"][GPU]["reserved"] == reserved == 1


def test_a_device_that_another_consumer_has_is_reported(node):
    claim = node.agent.run(ONE)
    node.allocate(OTHER, {GPU: 1}, provider(node, claim.pci[0].address))
    report = node.run()
    (problem,) = report.problems
    assert (report.healed, problem.startswith(GUEST)) == ((), True)
    assert node.parts(GUEST) == {}


def test_a_guest_with_a_damaged_claim_is_left_out(node):
    """It is not known which devices the claim has."""
    claim = node.agent.run(ONE)
    state, published = node.agent.state, published_classes(node.tree())
    damaged = replace(claim, suspect=DAMAGED)
    change = Change(cause="t", at=NOON, puts=(damaged,))
    assert is_healable(state, GUEST, published)
    assert not is_healable(state.fold(change), GUEST, published)


def test_a_claim_that_ends_meanwhile_gets_nothing(node):
    claim = node.agent.run(ONE)
    node.meddler.before["consumer"] = lambda: node.agent.release(claim)
    assert node.run().healed == ()
    assert node.parts(GUEST) == {}


# -- without an audit -----------------------------------------------------------------------------


def test_an_owner_whose_devices_have_changed_is_healed_with_few_requests(node):
    claim = node.agent.run(ONE)
    node.agent.run(owner=OTHER)
    node.meddler.requests.clear()
    node.auditor.heal([GUEST, OTHER])
    assert node.parts(GUEST) == {provider(node, claim.pci[0].address): {GPU: 1}}
    assert node.meddler.requests == ["consumer", "consumer", "put_consumer"]
    node.meddler.requests.clear()
    node.auditor.heal([GUEST])
    assert node.meddler.requests == ["consumer"]
