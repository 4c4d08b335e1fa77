"""What provider files add to the tree of a host, and what contradicts the host."""

import json
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from rtagent.model.node_state import NodeState
from rtagent.model.provider_names import device_suffix, provider_name
from rtagent.pci.specs import parse_specs
from rtagent.placement.offers import Offers, resolve
from rtagent.placement.provider import InventoryRecord, Provider
from rtagent.placement.tree import build
from tests.support.device_states import PMEM, audited, device_host, policy, seen
from tests.support.hosts import NODE, host
from tests.support.pci_hosts import GPU_0, GPU_IDS, gpu
from tests.support.provider_files import CLASS, TRAIT, added, entry, provider_files

THIS = {"uuid": "$COMPUTE_NODE"}
GPU_CLASS = "CUSTOM_PCI_10DE_13F1"
SUFFIX = device_suffix(GPU_0)
GPU_NAME = {"name": provider_name(NODE, SUFFIX)}
REPORTED = policy(parse_specs([json.dumps(GPU_IDS)]), report_in_placement=True)


@pytest.fixture
def offers(tmp_path):
    """A function that resolves entries on a host."""

    def make(state: NodeState, *entries: dict[str, Any]) -> Offers:
        return resolve(provider_files(tmp_path / "files", *entries), state)

    return make


def with_gpu(*devices: Any) -> NodeState:
    """A host that reports its devices in Placement."""
    state = device_host(pci=REPORTED)
    return audited(state, seen(state, devices=devices or (gpu(GPU_0, 0),)))


def one(total: int = 8) -> dict[str, dict[str, Any]]:
    return {CLASS: {"total": total}}


def providers(state: NodeState, offers: Offers) -> dict[str, Provider]:
    """The tree with these offers, by name."""
    tree = build(replace(state, policy=offers.added_to(state.policy)), False, True)
    assert tree is not None
    return {each.name: each for each in tree.providers}


@pytest.mark.parametrize(
    "identification", [THIS, {"uuid": NODE.uuid}, {"name": NODE.hypervisor_hostname}]
)
def test_root_is_found_by_each_identification(offers, identification):
    fields = {"total": 8, "reserved": 2, "min_unit": 2, "max_unit": 4, "step_size": 2}
    ratio = {"allocation_ratio": 1.23456789}

    made = offers(host(), entry(identification, {CLASS: {**fields, **ratio}}, (TRAIT,)))

    before = providers(host(), Offers())[NODE.hypervisor_hostname]
    root = providers(host(), made)[NODE.hypervisor_hostname]
    record = InventoryRecord(
        total=8, reserved=2, min_unit=2, max_unit=4, step_size=2, allocation_ratio=1.23456
    )
    assert root.inventories == {**before.inventories, CLASS: record}
    assert root.traits == before.traits | {TRAIT}
    assert (made.absent, made.mistakes) == ((), ())


def test_claims_see_what_is_offered(offers):
    made = offers(host(), entry(THIS, {CLASS: {"total": 8, "reserved": 1}}, (TRAIT,)))

    policy = made.added_to(host().policy).placement

    unlimited = {"max_unit": 2**31 - 1, "allocation_ratio": Decimal(1)}
    assert policy.additional == (added(total=8, reserved=1, **unlimited),)
    assert policy.additional_traits == {"": {TRAIT}}
    assert [name.rpartition("/")[2] for name in policy.additional_by.values()] == ["a.yaml"]


def test_provider_that_two_entries_describe_is_a_mistake(offers):
    """By its name and by its uuid; the latter takes precedence."""
    named = entry({"name": NODE.hypervisor_hostname}, {"CUSTOM_NAMED": {"total": 1}})
    made = offers(host(), named, entry({"uuid": NODE.uuid}, one()))

    (mistake,) = made.mistakes
    twice = f"provider {NODE.hypervisor_hostname} is described a second time"
    origin = made.entries[""].origin
    assert mistake.message.endswith(f"{twice}, as {NODE.uuid} in {origin}")
    assert [each.resource_class for each in made.entries[""].inventories] == [CLASS]


def test_class_that_the_agent_publishes_is_a_mistake(offers):
    """The agent's own inventory stays, and the rest of the entry is offered."""
    state = with_gpu()

    made = offers(state, entry(GPU_NAME, {GPU_CLASS: {"total": 9}, CLASS: {"total": 1}}))

    (mistake,) = made.mistakes
    published = f"the agent itself publishes {GPU_CLASS} of provider {GPU_NAME['name']}"
    assert mistake.message.endswith(f"a.yaml: $.providers[0]: {published}: remove it")
    child = providers(state, made)[GPU_NAME["name"]]
    assert (child.inventories[GPU_CLASS].total, child.inventories[CLASS].total) == (1, 1)
    assert [each.resource_class for each in made.entries[SUFFIX].inventories] == [CLASS]


def test_class_of_persistent_memory_is_a_mistake_before_the_first_audit(offers):
    pmem = policy(pmem=(PMEM,))
    state = replace(host(), policy=replace(host().policy, pci=pmem))
    name = PMEM.resource_class

    made = offers(state, entry(THIS, {name: {"total": 1}}))

    sentence = f"the agent itself publishes {name} of provider $COMPUTE_NODE"
    assert sentence in made.mistakes[0].message


def test_agents_own_inventory_of_an_offered_class_is_published(offers):
    """A device may appear before the policy is made anew."""
    early = offers(device_host({}, pci=REPORTED), entry(THIS, {GPU_CLASS: {"total": 9}}))
    made = Offers(entries={SUFFIX: early.entries[""]})

    child = providers(with_gpu(), made)[GPU_NAME["name"]]
    assert child.inventories[GPU_CLASS].total == 1
