"""Nova's sentences for refusals, made from the refusals of real requests."""

import pytest

from rtagent.allocation.allocate import allocate
from rtagent.allocation.requirements import from_move
from rtagent.model.decision import DEVICES, NUMA, NUMA_WITH_DEVICES, PAGE_SIZE, nova_reason
from rtagent.model.migration import MoveRequest, SourceFacts
from rtagent.model.policy import NetworkPolicy
from rtagent.model.request import Limits, NetworkMetadata, NumaLimits
from tests.support.device_states import PMEM, built, device_host, policy, refusal
from tests.support.hosts import PINNED, PINNING, host, request


def refused(state, asked):
    return [reason.as_dict() for reason in refusal(state, asked).reasons]


def flavor(aliases):
    return {"pci_passthrough:alias": aliases}


REQUIRED = {"hw:pci_numa_affinity_policy": "required"}


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (request(7, 1, extra_specs=PINNED), NUMA),
        (request(1, 16384, extra_specs={"hw:numa_nodes": "1"}), NUMA),
        (request(3, 3072, extra_specs={"hw:numa_nodes": "3"}), NUMA),
        (request(1, 4096, extra_specs={"hw:mem_page_size": "2MB"}), NUMA),
        (request(1, 1, extra_specs=flavor("gpu:3")), DEVICES),
        (request(2, 2, extra_specs={**flavor("gpu:3"), **PINNED}), DEVICES),
        (request(1, 1, extra_specs={**flavor("gpu:2"), **PINNED, **REQUIRED}), NUMA_WITH_DEVICES),
        (request(7, 1, extra_specs={**flavor("gpu:3"), **PINNED}), NUMA_WITH_DEVICES),
    ],
)
def test_sentence_comes_first_and_the_numbers_follow(asked, sentence):
    reasons = refused(device_host(), asked)
    text = nova_reason(reasons)
    assert text == f"{sentence}: " + "; ".join(each["message"] for each in reasons)


def test_amounts_have_no_sentence_but_their_numbers():
    assert nova_reason(refused(host(), request(1, 20000))) == (
        "MEMORY_MB: 20000 MB requested at cn1.example, the host has 16384 in all"
    )


def test_resources_that_are_assigned_one_by_one():
    asked = request(extra_specs={"hw:pmem": "4GB,4GB"})
    state, _ = built(device_host(pci=policy(pmem=(PMEM,))), extra_specs={"hw:pmem": "4GB"})
    reasons = refused(state, asked)
    sentence = f"Needed 2 units of resource class {PMEM.resource_class}, but 1 are available."
    assert nova_reason(reasons) == f"{sentence} {reasons[0]['message']}"


def test_resource_classes_that_the_host_lacks_have_no_sentence_but_their_numbers():
    asked = request(extra_specs={"resources:VGPU": "1"})
    assert nova_reason(refused(host(), asked)).startswith("VGPU: 1 units requested")


def test_option_that_is_missing_for_dedicated_cpus_is_named():
    text = nova_reason(refused(host(), request(1, 1, extra_specs=PINNED)))
    assert text.startswith(f"{NUMA}: PCPU: ") and "[compute] cpu_dedicated_set" in text


def test_networks_on_other_cells():
    networks = NetworkPolicy(physnets={"a": frozenset({0}), "b": frozenset({1})})
    metadata = NetworkMetadata(physnets=("a", "b"))
    limits = Limits(numa_topology=NumaLimits(network_metadata=metadata))
    asked = request(1, 1, limits=limits, extra_specs={"hw:numa_nodes": "1"})
    state = host(numa=type(PINNING)(networks=networks))
    assert nova_reason(refused(state, asked)).startswith(f"{NUMA}: NUMA affinity of ")


def test_page_size_of_a_live_migration():
    state = host()
    build = request(1, 4096, extra_specs={"hw:mem_page_size": "any"})
    old, source = build.instance.flavor, SourceFacts(page_sizes=(2048,))
    asked = MoveRequest(build=build, migration="live-migration", old_flavor=old, source=source)
    decision = allocate(state, build.instance.uuid, from_move(asked, state.policy))
    reasons = [reason.as_dict() for reason in decision.reasons]
    assert nova_reason(reasons, live_migration=True).startswith(f"{PAGE_SIZE} 2MiB pages")
    assert nova_reason(reasons).startswith(f"{NUMA}: ")
