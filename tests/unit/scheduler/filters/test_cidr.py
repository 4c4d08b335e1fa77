"""SimpleCIDRAffinityFilter: hosts in the network of an address."""

from __future__ import annotations

import pytest

from rtagent.errors import InvalidRequest
from rtagent.scheduler.filters.hints import SimpleCIDRAffinityFilter
from tests.support.host_states import host_state
from tests.support.scheduling import passes, scheduler_request, why_not


@pytest.mark.parametrize(
    ("hints", "address", "passing"),
    [
        ({"build_near_host_ip": "192.0.2.7"}, "192.0.2.200", True),
        ({"build_near_host_ip": "192.0.2.7"}, "192.0.3.1", False),
        ({"build_near_host_ip": "192.0.2.7", "cidr": "/23"}, "192.0.3.1", True),
        ({"build_near_host_ip": "192.0.2.7", "cidr": "/255.255.255.252"}, "192.0.2.8", False),
        ({"build_near_host_ip": ["192.0.2.7"], "cidr": ["/30"]}, "192.0.2.4", True),
        ({"build_near_host_ip": "2001:db8::1", "cidr": "/64"}, "2001:db8::2", True),
        ({"build_near_host_ip": "2001:db8::1", "cidr": "/64"}, "192.0.2.1", False),
        ({"build_near_host_ip": "192.0.2.7", "cidr": None}, "192.0.2.1", True),
        ({"build_near_host_ip": None}, "192.0.2.1", True),
        ({"cidr": "/24"}, "192.0.2.1", True),
        ({}, "", True),
    ],
)
def test_the_address_of_the_host_has_to_be_in_the_network(hints, address, passing):
    host = host_state(host_ip=address)
    assert passes(SimpleCIDRAffinityFilter, host, scheduler_request(hints=hints)) is passing


@pytest.mark.parametrize("address", ["", "nowhere"])
def test_a_host_without_an_address_is_set_aside(address):
    request = scheduler_request(hints={"build_near_host_ip": "192.0.2.7"})
    refused = why_not(SimpleCIDRAffinityFilter, host_state(host_ip=address), request)
    assert refused == "its address is not known, so it cannot be in 192.0.2.0/24"


@pytest.mark.parametrize(
    "hints",
    [
        {"build_near_host_ip": "nowhere"},
        {"build_near_host_ip": "192.0.2.7", "cidr": "/33"},
        {"build_near_host_ip": "192.0.2.7", "cidr": "24"},
        {"build_near_host_ip": ["192.0.2.7", "192.0.2.8"]},
        {"build_near_host_ip": "192.0.2.7", "cidr": ["/24", "/25"]},
    ],
)
def test_hints_that_are_no_network_are_an_error_of_the_request(hints):
    with pytest.raises(InvalidRequest, match="build_near_host_ip: must be one address"):
        passes(SimpleCIDRAffinityFilter, host_state(), scheduler_request(hints=hints))
