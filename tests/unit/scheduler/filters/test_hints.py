"""Filters by scheduler hints and server groups."""

from __future__ import annotations

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
    ("hint", "passing"),
    [
        (uid(11), True),
        (uid(20), False),
        ([uid(20), uid(12)], True),
        ([uid(20), uid(21)], False),
        (uid(13), False),
    ],
)
def test_same_host_wants_one_of_the_instances(hint, passing):
    request = scheduler_request(hints={"same_host": hint})
    assert passes(SameHostFilter, HOST, request) is passing


@pytest.mark.parametrize(
    ("hint", "passing"),
    [
        (uid(11), False),
        (uid(20), True),
        ([uid(20), uid(12)], False),
        ([uid(20), uid(21)], True),
        (uid(13), False),
    ],
)
def test_different_host_wants_none_of_the_instances(hint, passing):
    request = scheduler_request(hints={"different_host": hint})
    assert passes(DifferentHostFilter, HOST, request) is passing


def test_a_rejection_names_the_instance():
    request = scheduler_request(hints={"different_host": [uid(20), uid(12)]})
    assert uid(12) in why_not(DifferentHostFilter, HOST, request)


@pytest.mark.parametrize("kind", [SameHostFilter, DifferentHostFilter])
@pytest.mark.parametrize("value", [None, [], "", [""]])
def test_a_hint_without_a_value_is_no_hint(kind, value):
    request = scheduler_request(hints={"same_host": value, "different_host": value})
    assert passes(kind, HOST, request)
    assert passes(kind, HOST, scheduler_request(hints=None))


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


MEMBERS = (uid(11), uid(12), uid(13))


def _affinity(*hosts, policy="affinity"):
    return scheduler_request(group=InstanceGroup(policy=policy, hosts=hosts, members=MEMBERS))


def _anti_affinity(most=1, members=MEMBERS, policy="anti-affinity"):
    rules = GroupRules(max_server_per_host=most)
    return scheduler_request(group=InstanceGroup(policy=policy, rules=rules, members=members))


def test_affinity_keeps_to_the_hosts_of_the_group():
    request = _affinity("cn1", "cn3")
    assert passes(ServerGroupAffinityFilter, host_state("cn1"), request)
    refused = why_not(ServerGroupAffinityFilter, host_state("cn2"), request)
    assert refused == "the server group is on cn1, cn3"


@pytest.mark.parametrize(
    "spec", [scheduler_request(), _affinity(), _affinity("cn1", policy="soft-affinity")]
)
def test_affinity_without_hosts_judges_nothing(spec):
    assert passes(ServerGroupAffinityFilter, host_state("cn2"), spec)


def test_anti_affinity_refuses_a_host_with_a_member():
    request = _anti_affinity()
    assert passes(ServerGroupAntiAffinityFilter, host_state(instances=[uid(20)]), request)
    refused = why_not(ServerGroupAntiAffinityFilter, host_state(instances=[uid(12)]), request)
    assert refused == "1 members of the server group are here, of 1 at most"


def test_a_member_on_its_way_to_the_host_counts():
    arriving = host_state(instances=[InstanceInfo(uuid=uid(12), here=False)])
    assert not passes(ServerGroupAntiAffinityFilter, arriving, _anti_affinity())


@pytest.mark.parametrize(("most", "here", "passing"), [(2, 1, True), (2, 2, False), (3, 2, True)])
def test_max_server_per_host_allows_more_members(most, here, passing):
    host = host_state(instances=MEMBERS[:here])
    assert passes(ServerGroupAntiAffinityFilter, host, _anti_affinity(most)) is passing


def test_the_host_of_the_instance_itself_passes():
    host = host_state(instances=[INSTANCE, uid(12)])
    members = (INSTANCE, *MEMBERS)
    assert passes(ServerGroupAntiAffinityFilter, host, _anti_affinity(members=members))


@pytest.mark.parametrize(
    "spec",
    [scheduler_request(), _anti_affinity(members=()), _anti_affinity(policy="soft-anti-affinity")],
)
def test_anti_affinity_without_members_judges_nothing(spec):
    assert passes(ServerGroupAntiAffinityFilter, host_state(instances=MEMBERS), spec)
