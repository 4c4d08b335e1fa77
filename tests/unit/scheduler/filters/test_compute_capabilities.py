"""ComputeCapabilitiesFilter: extra specs about fields and statistics of the host."""

import pytest

from rtagent.errors import InvalidRequest
from rtagent.scheduler.filters.compute_capabilities import ComputeCapabilitiesFilter
from tests.support.host_states import host_state
from tests.support.scheduling import passes, scheduler_request, why_not

CPUS = {"arch": "x86_64", "features": ["aes", "svm"], "topology": {"cores": 16}}
ADDRESSES = {"maxphysaddr": {"mode": "passthrough", "bits": 42}}
KIND = {
    "hypervisor_type": "QEMU",
    "hypervisor_version": 8002002,
    "supported_instances": (("x86_64", "kvm", "hvm"),),
}
CPU_INFO = {**CPUS, **ADDRESSES}
HOST = host_state(free_ram_mb=2048, stats={"io_workload": 3}, cpu_info=CPU_INFO, **KIND)


@pytest.mark.parametrize(
    ("extra_specs", "passing"),
    [
        ({}, True),
        ({"capabilities:hypervisor_type": "QEMU"}, True),
        ({"capabilities:hypervisor_type": "s== lxc"}, False),
        ({"capabilities:free_ram_mb": "= 2048"}, True),
        ({"capabilities:cpu_info:arch": "<or> ppc64 <or> x86_64"}, True),
        ({"capabilities:cpu_info:features": "<all-in> aes svm"}, True),
        ({"capabilities:supported_instances": "[['x86_64', 'kvm', 'hvm']]"}, True),
        ({"capabilities:cpu_info:topology:cores": "== 16"}, True),
        ({"capabilities:cpu_info:topology:threads": "== 2"}, False),
        ({"capabilities:io_workload": "<= 3"}, True),
        ({"capabilities:stats:io_workload": "< 3"}, False),
        ({"capabilities:replica": "1"}, False),
        ({"capabilities:host:name": "cn1"}, False),
        ({"capabilities:service:disabled": "False"}, True),
        ({"io_workload": "<= 3"}, True),
        ({"io_workload": "= broken"}, False),
        ({"unknown": "= anything"}, True),
        ({"hw:cpu_policy": "dedicated", "trait:HW_CPU_X86_AVX": "required"}, True),
        ({"hw:maxphysaddr_bits": "42"}, True),
        ({"hw:maxphysaddr_bits": "43"}, False),
    ],
)
def test_extra_specs_are_judged_on_fields_and_statistics(extra_specs, passing):
    request = scheduler_request(extra_specs=extra_specs)
    assert passes(ComputeCapabilitiesFilter, HOST, request) is passing


@pytest.mark.parametrize(
    ("extra_specs", "reason"),
    [
        ({"capabilities:free_ram_mb": ">= 4096"}, "free_ram_mb has to be >= 4096, and is 2048"),
        ({"capabilities:unknown": "= 1"}, "unknown has to be = 1, and the host has none"),
        (
            {"capabilities:hypervisor_type": ">= 1"},
            "hypervisor_type has to be >= 1, and is not a number",
        ),
        (
            {"capabilities:cpu_info:features": "<in> vmx"},
            "cpu_info:features has to be <in> vmx, and is ['aes', 'svm']",
        ),
    ],
)
def test_a_rejection_says_what_the_host_has(extra_specs, reason):
    refused = why_not(ComputeCapabilitiesFilter, HOST, scheduler_request(extra_specs=extra_specs))
    assert reason in refused


@pytest.mark.parametrize(
    "extra_specs",
    [
        {"capabilities:free_ram_mb": ">= many"},
        {"free_ram_mb": "<or>"},
        {"hw:maxphysaddr_bits": "x"},
    ],
)
def test_a_malformed_rule_is_an_error_of_the_request(extra_specs):
    with pytest.raises(InvalidRequest):
        passes(ComputeCapabilitiesFilter, HOST, scheduler_request(extra_specs=extra_specs))
