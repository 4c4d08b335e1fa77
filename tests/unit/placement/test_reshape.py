"""Plans of reshapes: what moves where, what is added, and what is refused."""

import pytest

from rtagent.placement.reshape import Reshape, ReshapeRefusal, Transfer, plan_reshape
from tests.unit.placement.layouts import GPU_CLASS, VGPU, A, B, C, consumers, layout, wanted
from tests.unit.placement.values import ROOT, record

ON_ROOT = {ROOT: {"VCPU": record(8), VGPU: record(4)}}
TWO_GPUS = {A: {VGPU: record(4)}, B: {VGPU: record(4)}}


def transfer(consumer, source, target, quantity=1, name=VGPU):
    return Transfer(
        consumer=consumer, resource_class=name, source=source, target=target, quantity=quantity
    )


def test_a_virtual_gpu_moves_from_the_root_to_the_device_of_the_claim():
    known = consumers(vm={ROOT: {"VCPU": 2, VGPU: 1}, "storage": {"DISK_GB": 3}})
    plan = plan_reshape(layout(ON_ROOT, known), wanted(TWO_GPUS, {"vm": {(B, VGPU): 1}}))
    assert isinstance(plan, Reshape)
    assert plan.transfers == (transfer("vm", ROOT, B),)
    consumer = plan.consumers["vm"]
    assert consumer.allocations == {ROOT: {"VCPU": 2}, B: {VGPU: 1}, "storage": {"DISK_GB": 3}}
    assert (consumer.generation, consumer.project_id) == (3, "project-vm")
    classes = {uuid: set(each.inventories) for uuid, each in plan.providers.items()}
    assert classes == {ROOT: {"VCPU"}, B: {VGPU}}
    assert plan.providers[ROOT].generation == 7


def test_a_consumer_without_a_claim_goes_to_the_only_device_with_room():
    known = consumers(claimed={ROOT: {VGPU: 4}}, vm={ROOT: {VGPU: 1}})
    plan = plan_reshape(layout(ON_ROOT, known), wanted(TWO_GPUS, {"claimed": {(A, VGPU): 4}}))
    assert plan.transfers == (transfer("claimed", ROOT, A, 4), transfer("vm", ROOT, B))


def test_a_domain_without_a_claim_shows_which_device_it_has():
    known = consumers(vm={ROOT: {VGPU: 1}})
    full = {A: {VGPU: record(4, reserved=4)}, B: {VGPU: record(4)}}
    plan = plan_reshape(layout(ON_ROOT, known), wanted(full, observed={"vm": {(A, VGPU): 1}}))
    assert plan.transfers == (transfer("vm", ROOT, A),)
    # The unit counted as reserved, because no claim has it.
    assert plan.providers[A].inventories[VGPU] == record(4, reserved=3)


def test_an_ambiguous_consumer_is_refused_by_name():
    known = consumers(claimed={ROOT: {VGPU: 1}}, vm={ROOT: {VGPU: 2}})
    claims = {"claimed": {(A, VGPU): 1}}
    refusal = plan_reshape(layout(ON_ROOT, known), wanted(TWO_GPUS, claims))
    assert isinstance(refusal, ReshapeRefusal)
    assert (refusal.consumer, refusal.resource_class, refusal.quantity) == ("vm", VGPU, 2)
    for words in ("consumer vm has 2 VGPU", f"name-{ROOT}", f"cn1_{A}, cn1_{B}"):
        assert words in str(refusal)


def test_a_consumer_that_fits_nowhere_is_refused_with_numbers():
    known = consumers(vm={ROOT: {VGPU: 3}})
    small = {A: {VGPU: record(1)}, B: {VGPU: record(2)}}
    refusal = plan_reshape(layout(ON_ROOT, known), wanted(small))
    assert isinstance(refusal, ReshapeRefusal)
    assert f"1 on cn1_{A}, 2 on cn1_{B}" in refusal.reason


def test_claims_that_contradict_the_allocation_are_refused():
    known = consumers(vm={ROOT: {VGPU: 3}})
    claims = {"vm": {(A, VGPU): 1, (B, VGPU): 1}}
    refusal = plan_reshape(layout(ON_ROOT, known), wanted(TWO_GPUS, claims))
    assert isinstance(refusal, ReshapeRefusal)
    assert f"1 on cn1_{A}, 1 on cn1_{B}" in refusal.reason


def test_more_than_a_device_has_is_refused_with_numbers():
    known = consumers(one={ROOT: {VGPU: 3}}, two={A: {VGPU: 2}})
    inventories = {**ON_ROOT, A: {VGPU: record(4)}}
    refusal = plan_reshape(layout(inventories, known), wanted(TWO_GPUS, {"one": {(A, VGPU): 3}}))
    assert isinstance(refusal, ReshapeRefusal)
    assert (refusal.consumer, refusal.quantity) == ("one", 3)
    assert "would have 5 of 4" in refusal.reason


@pytest.mark.parametrize("claims", [{}, {"vm": {(C, VGPU): 1}}])
def test_a_part_on_a_device_that_is_gone_stays_without_another_claim(claims):
    known = consumers(vm={C: {VGPU: 1}})
    now = layout({C: {VGPU: record(4)}, A: {VGPU: record(4)}}, known)
    assert plan_reshape(now, wanted(TWO_GPUS, claims)) is None


def test_inventories_of_other_classes_are_not_moved():
    """A provider file adds the class to a child; another service has it on the root."""
    known = consumers(vm={ROOT: {"CUSTOM_LICENSE": 1}})
    now = layout({ROOT: {"VCPU": record(8), "CUSTOM_LICENSE": record(5)}}, known)
    assert plan_reshape(now, wanted({A: {VGPU: record(4), "CUSTOM_LICENSE": record(5)}})) is None


# -- devices that were not reported ----------------------------------------------------------------

CLAIMED = {"vm": {(A, GPU_CLASS): 1}}
DEVICES = {A: {GPU_CLASS: record(1)}}
HOST = {ROOT: {"VCPU": record(8)}}


def test_a_device_for_one_use_is_reserved_after_its_allocation_was_written():
    known = consumers(vm={ROOT: {"VCPU": 2}})
    devices = {A: {GPU_CLASS: record(1, reserved=1)}}
    plan = plan_reshape(layout(HOST, known), wanted(devices, CLAIMED))
    assert plan.providers[A].inventories[GPU_CLASS].reserved == 0


@pytest.mark.parametrize(
    "known",
    [
        {},  # nobody writes allocations
        consumers(vm={"elsewhere": {"VCPU": 2}}),
        consumers(vm={ROOT: {"VCPU": 2}, B: {GPU_CLASS: 1}}),
    ],
)
def test_nothing_is_added_for_a_consumer_without_need(known):
    now = layout({**HOST, B: {GPU_CLASS: record(1)}}, known)
    devices = {**DEVICES, B: {GPU_CLASS: record(1)}}
    assert plan_reshape(now, wanted(devices, CLAIMED)) is None
