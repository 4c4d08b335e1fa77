"""Filters by scheduler hints and server groups."""

import pytest

from rtagent.errors import InvalidRequest
from rtagent.model.host_report import InstanceInfo
from rtagent.model.server import GroupRules, InstanceGroup
from rtagent.scheduler.filters.hints import (
    DifferentHostFilter,
    SameHostFilter,
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
    SimpleCIDRAffinityFilter,
)
from tests.support.host_states import host_state
from tests.support.hosts import uid
from tests.support.scheduling import INSTANCE, passes, scheduler_request, why_not

HOST = host_state(instances=[uid(11), uid(12), InstanceInfo(uuid=uid(13), here=False)])


@pytest.mark.parametrize(
    ("hint", "same", "different"),
    [
        (uid(20), False, True),
        ([uid(20), uid(12)], True, False),
        (uid(13), False, False),  # it is on its way to the host
    ],
)
def test_same_host_wants_one_of_the_instances_and_different_host_none(hint, same, different):
    request = scheduler_request(hints={"same_host": hint, "different_host": hint})
    assert passes(SameHostFilter, HOST, request) is same
    assert passes(DifferentHostFilter, HOST, request) is different
    named = scheduler_request(hints={"different_host": [uid(20), uid(12)]})
    assert uid(12) in why_not(DifferentHostFilter, HOST, named)


@pytest.mark.parametrize(
    ("hints", "address", "passing"),
    [
        ({"build_near_host_ip": "192.0.2.7"}, "192.0.2.200", True),
        ({"build_near_host_ip": "192.0.2.7"}, "192.0.3.1", False),
        ({"build_near_host_ip": "192.0.2.7", "cidr": "/23"}, "192.0.3.1", True),
        ({"build_near_host_ip": "192.0.2.7", "cidr": "/255.255.255.252"}, "192.0.2.8", False),
        ({"build_near_host_ip": "2001:db8::1", "cidr": "/64"}, "2001:db8::2", True),
        ({"build_near_host_ip": "2001:db8::1", "cidr": "/64"}, "192.0.2.1", False),
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


MEMBERS = (uid(11), uid(12), uid(13))


def _affinity(*hosts, policy="affinity"):
    return scheduler_request(group=InstanceGroup(policy=policy, hosts=hosts, members=MEMBERS))


def _anti_affinity(most=1, members=MEMBERS, policy="anti-affinity"):
    rules = GroupRules(max_server_per_host=most)
    return scheduler_request(group=InstanceGroup(policy=policy, rules=rules, members=members))


def test_affinity_keeps_to_the_hosts_of_the_group():
    request = _affinity("cn1", "cn3")
    assert passes(ServerGroupAffinityFilter, host_state("cn1"), request)
    soft = _affinity("cn1", policy="soft-affinity")
    assert passes(ServerGroupAffinityFilter, host_state("cn2"), soft)
    refused = why_not(ServerGroupAffinityFilter, host_state("cn2"), request)
    assert refused == "the server group is on cn1, cn3"


@pytest.mark.parametrize("member", [uid(12), InstanceInfo(uuid=uid(12), here=False)])
def test_anti_affinity_refuses_a_host_with_a_member_or_with_one_on_its_way(member):
    host = host_state(instances=[member])
    assert passes(ServerGroupAntiAffinityFilter, host_state(instances=[uid(20)]), _anti_affinity())
    refused = why_not(ServerGroupAntiAffinityFilter, host, _anti_affinity())
    assert refused == "1 members of the server group are here, of 1 at most"
    assert passes(ServerGroupAntiAffinityFilter, host, _anti_affinity(policy="soft-anti-affinity"))


def test_the_host_of_the_instance_itself_passes():
    host = host_state(instances=[INSTANCE, uid(12)])
    members = (INSTANCE, *MEMBERS)
    assert passes(ServerGroupAntiAffinityFilter, host, _anti_affinity(members=members))
