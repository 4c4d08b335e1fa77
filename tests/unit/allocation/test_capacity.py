"""Whether the host has enough: reserves, ratios, limits, totals, and adopted orphans."""

import pytest
from msgspec.structs import replace

from rtagent import claims
from rtagent.model.decision import Granted
from rtagent.model.request import Limits
from tests.support.device_states import refusal, with_builds
from tests.support.hosts import NOON, PINNED, PINNING, call, host, request, uid


def decide(state, asked):
    return claims.instance_claim(state, call(), NOON, asked)


@pytest.mark.parametrize(
    ("policy", "asked", "fits"),
    [
        ({}, request(8, 1), True),
        ({}, request(9, 1), False),
        ({"reserved_cpus": 1}, request(8, 1), False),
        ({"numa": PINNING}, request(7, 1, extra_specs=PINNED), False),
        ({}, request(1, 16384), True),
        ({"reserved_memory_mb": 512}, request(1, 16384 - 511), False),
        ({}, request(1, 1, 100), True),
        ({}, request(1, 1, 100, swap=1), False),
        ({"reserved_disk_mb": 1024}, request(1, 1, 99), True),
        ({"disk_allocation_ratio": 0.5}, request(1, 1, 50, swap=1), False),
        # 16384 MB at 1.1 are 18022 MB, rounded down, without the error of a float
        ({"ram_allocation_ratio": 1.1}, request(1, 16384), True),
    ],
)
def test_claim_fits_within_reserves_and_ratios(policy, asked, fits):
    assert isinstance(decide(host(**policy), asked), Granted) is fits


@pytest.mark.parametrize(
    ("limits", "asked", "fits"),
    [
        (Limits(vcpu=4), request(5, 1), False),
        (Limits(vcpu=4), request(4, 1), True),
        (Limits(memory_mb=1024), request(1, 513), False),  # of which 512 MB are reserved
        (Limits(memory_mb=1024), request(1, 512), True),
        (Limits(disk_gb=1), request(1, 1, 2), False),
        (Limits(vcpu=0), request(1, 1), False),
        (Limits(memory_mb=20000), request(1, 16384), True),
    ],
)
def test_limits_of_the_request_replace_what_the_host_advertises(limits, asked, fits):
    state = host(reserved_memory_mb=512)
    assert isinstance(decide(state, replace(asked, limits=limits)), Granted) is fits


def test_shared_disk_is_not_checked_here_unless_the_request_limits_it():
    state = host()
    placement = replace(state.policy.placement, disk_provider=uid())
    state = replace(state, policy=replace(state.policy, placement=placement))
    assert isinstance(decide(state, request(1, 1, 101)), Granted)
    assert with_builds(state, request(1, 1, 101)).usage.disk_mb == 101 * 1024
    refusal(state, request(1, 1, 101, limits=Limits(disk_gb=50)))


UNJUDGED = {"judge_amounts": False, "numa": PINNING}


@pytest.mark.parametrize(
    "asked",
    [
        request(900, 1),
        request(1, 100_000),
        request(1, 1, 5000),
        request(2, 1, limits=Limits(vcpu=1, memory_mb=1, disk_gb=0)),
    ],
)
def test_amounts_that_are_not_judged_refuse_nothing_and_are_counted(asked):
    state = host(**UNJUDGED)
    refusal(replace(state, policy=host(numa=PINNING).policy), asked)
    after = with_builds(state, asked)
    assert after.usage.vcpus == asked.instance.flavor.vcpus
    assert after.usage.memory_mb == asked.instance.flavor.memory_mb
    assert after.usage.disk_mb == asked.instance.flavor.root_gb * 1024
