"""Server groups: affinity to hosts, anti-affinity to members."""

from __future__ import annotations

import pytest

from rtagent.model.host_report import InstanceInfo
from rtagent.model.server import GroupRules, InstanceGroup
from rtagent.scheduler.filters.hints import (
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
)
from tests.support.host_states import host_state
from tests.support.hosts import uid
from tests.support.scheduling import INSTANCE, passes, scheduler_request, why_not

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


def test_a_host_with_every_member_is_full_if_that_is_all_it_may_have():
    host = host_state(instances=MEMBERS[:2])
    assert not passes(ServerGroupAntiAffinityFilter, host, _anti_affinity(2, MEMBERS[:2]))


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
