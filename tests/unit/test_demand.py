"""What a request asks for; what is more than an amount or a place is never granted silently."""

import pytest

from rtagent import claims, demand
from rtagent.errors import (
    InvalidFlavor,
    InvalidPciRequest,
    PciRequestAliasNotDefined,
    PropertyInvalid,
)
from rtagent.model.decision import Granted, ReasonCode
from rtagent.model.flavor import Image
from rtagent.model.instance import PciRequest
from tests.builders import DEDICATED, NOON, PINNED, PINNING, call, host, request


def test_amounts_named_besides_the_flavor_are_added():
    asked = request(1, 100, 1, extra_resource={"VCPU": 1, "MEMORY_MB": 28, "DISK_GB": 2})
    found = demand.of(asked)
    assert (found.vcpus, found.pcpus, found.memory_mb, found.disk_mb) == (2, 0, 128, 3 * 1024)
    assert not found.specific


def test_dedicated_cpus_are_not_shared_vcpus():
    specs = {**PINNED, "hw:emulator_threads_policy": "isolate"}
    found = demand.of(request(2, 100, extra_specs=specs))
    assert (found.vcpus, found.pcpus) == (0, 3)


@pytest.mark.parametrize(
    ("extra_specs", "resource", "code"),
    [
        (PINNED, "PCPU", ReasonCode.NOT_CONFIGURED),
        ({"hw:pmem": "SMALL"}, "CUSTOM_PMEM_NAMESPACE_SMALL", "not_offered"),
        ({"resources1:CUSTOM_FPGA": "1"}, "CUSTOM_FPGA", "not_offered"),
    ],
)
def test_a_flavor_that_asks_for_what_is_not_there_is_refused(extra_specs, resource, code):
    refused = claims.build(host(), request(extra_specs=extra_specs), call(), NOON)
    assert [(r.code, r.resource) for r in refused.reasons] == [(code, resource)]


@pytest.mark.parametrize(
    "asked",
    [
        request(extra_resource={"VGPU": 1}),
        request(extra_resource={"PCPU": 1}),
        request(extra_resource={"CUSTOM_PMEM_NAMESPACE_SMALL": ("ns0", "ns1")}),
        request(instance={"pci_requests": (PciRequest(count=2, spec=({"vendor_id": "10de"},)),)}),
    ],
)
def test_other_ways_to_ask_for_more_are_refused_alike(asked):
    refused = claims.build(host(), asked, call(), NOON)
    assert [r.code for r in refused.reasons] == [ReasonCode.NOT_OFFERED]


@pytest.mark.parametrize(
    "extra_specs",
    [
        {"hw:cpu_policy": "shared"},
        {"hw:mem_page_size": "small"},
        {"hw:cpu_realtime": "no"},
        {"hw:cpu_sockets": "1", "quota:cpu_shares": "10"},
        {"resources:VCPU": "1", "trait:HW_CPU_X86_AVX": "required"},
    ],
)
def test_what_changes_no_amount_is_no_hindrance(extra_specs):
    asked = request(extra_specs=extra_specs)
    assert isinstance(claims.build(host(), asked, call(), NOON), Granted)


def test_a_contradiction_names_both_sides():
    asked = request(
        extra_specs={"hw:cpu_policy": "shared"},
        instance={"image": Image(properties={"hw_cpu_policy": "dedicated"})},
    )
    with pytest.raises(InvalidFlavor) as caught:
        claims.build(host(), asked, call(), NOON)
    assert set(caught.value.kwargs["properties"]) == {"hw:cpu_policy", "hw_cpu_policy"}


@pytest.mark.parametrize("number", ["many", "\u00b2", "-1", "1.5", "9" * 5000])
def test_how_many_of_a_class_is_a_number(number):
    with pytest.raises(PropertyInvalid) as caught:
        demand.of(request(extra_specs={"resources:VGPU": number}))
    assert caught.value.kwargs["properties"] == {"resources:VGPU": number}


@pytest.mark.parametrize("number", ["0", ""])
def test_none_of_a_class_is_nothing(number):
    assert not demand.of(request(extra_specs={"resources:VGPU": number})).specific


def test_a_pinned_claim_says_which_cpus_it_has():
    granted = claims.build(host(numa=PINNING), request(2, extra_specs=PINNED), call(), NOON)
    (claim,) = granted.claims
    assert (claim.vcpus, claim.pcpus) == (0, 2)
    pins = claim.numa_topology.cells[0].cpu_pinning
    assert set(pins) == {0, 1} and set(pins.values()) <= DEDICATED
    assert claim.units == {("PCPU", str(cpu)) for cpu in pins.values()}


def test_a_shared_guest_stays_off_dedicated_cpus():
    granted = claims.build(host(numa=PINNING), request(2), call(), NOON)
    assert granted.claims[0].numa_topology.shared_pcpus == {0, 1}


@pytest.mark.parametrize(
    "asked",
    [
        request(extra_specs={"pci_passthrough:alias": "gpu:1"}),
        request(instance={"pci_requests": (PciRequest(count=2, alias_name="gpu"),)}),
    ],
)
def test_an_alias_that_the_host_does_not_know_is_an_error_that_names_those_it_knows(asked):
    with pytest.raises(PciRequestAliasNotDefined, match="it names none"):
        claims.build(host(), asked, call(), NOON)


def test_members_that_are_named_answer_for_the_flavors_number():
    named = {"VGPU": ("a", "b")}
    flavor = {"resources:VGPU": "2"}
    assert demand.of(request(extra_specs=flavor, extra_resource=named)).specific == named
    with pytest.raises(InvalidPciRequest, match="the flavor asks for 3"):
        demand.of(request(extra_specs={"resources:VGPU": "3"}, extra_resource=named))


def test_numbers_of_one_class_add_up():
    specs = {"resources:VGPU": "1", "resources1:VGPU": "2", "hw:pmem": "SMALL,SMALL"}
    asked = demand.of(request(extra_specs=specs, extra_resource={"VGPU": 3}))
    assert asked.specific == {"VGPU": 6, "CUSTOM_PMEM_NAMESPACE_SMALL": 2}
