"""What a request asks for; what is more than an amount is never granted silently."""

import pytest

from rtagent import claims, demand
from rtagent.model.decision import Granted, ReasonCode
from rtagent.model.flavor import Image
from rtagent.model.instance import PciRequest
from rtagent.model.usage import Usage
from tests.builders import NOON, call, host, request


def test_amounts_named_besides_the_flavor_are_added():
    asked = request(1, 100, 1, extra_resource={"VCPU": 1, "MEMORY_MB": 28, "DISK_GB": 2})
    assert demand.of(asked) == demand.Demand(
        amounts=Usage(vcpus=2, memory_mb=128, disk_mb=3 * 1024)
    )


@pytest.mark.parametrize(
    ("extra_specs", "resource"),
    [
        ({"hw:cpu_policy": "dedicated"}, "hw:cpu_policy=dedicated"),
        ({"hw:cpu_policy": "mixed"}, "hw:cpu_policy=mixed"),
        ({"hw:numa_nodes": "1"}, "hw:numa_nodes=1"),
        ({"hw:mem_page_size": "large"}, "hw:mem_page_size=large"),
        ({"hw:emulator_threads_policy": "isolate"}, "hw:emulator_threads_policy=isolate"),
        ({"pci_passthrough:alias": "gpu:1"}, "pci_passthrough:alias=gpu:1"),
        ({"resources:PCPU": "2"}, "PCPU"),
        ({"resources1:CUSTOM_FPGA": "1"}, "CUSTOM_FPGA"),
    ],
)
def test_a_flavor_that_asks_for_more_than_amounts_is_refused(extra_specs, resource):
    asked = request(extra_specs=extra_specs)
    refused = claims.build(host(), asked, call(), NOON)
    assert [(r.code, r.resource) for r in refused.reasons] == [(ReasonCode.NOT_OFFERED, resource)]


@pytest.mark.parametrize(
    "asked",
    [
        request(extra_resource={"VGPU": 1}),
        request(extra_resource={"CUSTOM_PMEM_NAMESPACE_SMALL": ("ns0", "ns1")}),
        request(instance={"pci_requests": (PciRequest(count=2, alias_name="gpu"),)}),
        request(instance={"image": Image(properties={"hw_cpu_policy": "dedicated"})}),
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
        {"hw:cpu_sockets": "2", "quota:cpu_shares": "10"},
        {"resources:VCPU": "4", "trait:HW_CPU_X86_AVX": "required"},
    ],
)
def test_what_changes_no_amount_is_no_hindrance(extra_specs):
    assert isinstance(claims.build(host(), request(extra_specs=extra_specs), call(), NOON), Granted)
