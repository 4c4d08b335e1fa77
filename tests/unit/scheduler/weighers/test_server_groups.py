"""ServerGroupSoftAffinityWeigher and ServerGroupSoftAntiAffinityWeigher."""

import pytest

from rtagent.model.host_report import InstanceInfo
from rtagent.scheduler.weighers import (
    ServerGroupSoftAffinityWeigher,
    ServerGroupSoftAntiAffinityWeigher,
)
from tests.support.host_states import host_state
from tests.support.scheduling import UUID, group, raw

BOTH = (ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher)
LEAVING = InstanceInfo(uuid=UUID(3), here=False)
HOSTS = (
    host_state("a", instances=[UUID(1), UUID(2), UUID(9)]),
    host_state("b", instances=[UUID(3), UUID(8)]),
    host_state("c", instances=[LEAVING]),
)
MEMBERS = (UUID(1), UUID(2), UUID(3), UUID(4))


@pytest.mark.parametrize(
    ("policy", "affinity", "anti"),
    [
        ("soft-affinity", [2, 1, 0], None),
        ("soft-anti-affinity", None, [-2, -1, 0]),
        ("affinity", None, None),
        ("anti-affinity", None, None),
    ],
)
def test_instances_of_the_group_on_the_host_count(policy, affinity, anti):
    found = [raw(each, HOSTS, instance_group=group(policy, *MEMBERS)) for each in BOTH]

    assert found == [affinity, anti]


def test_request_without_group_costs_nothing():
    assert [raw(each, HOSTS) for each in BOTH] == [None, None]
