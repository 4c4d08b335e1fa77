"""ImagePropertiesWeigher."""

import pytest

from rtagent import claims
from rtagent.conf.filter_scheduler import FilterOptions
from rtagent.model.decision import Granted
from rtagent.model.host_report import InstanceInfo
from rtagent.model.request import Image
from rtagent.model.server import ImageRequest
from rtagent.scheduler.weighers import ImagePropertiesWeigher
from tests.support.host_states import host_state
from tests.support.hosts import NOON, call, host, request
from tests.support.scheduling import UUID, raw

LINUX = {"os_distro": "debian", "hw_machine_type": "q35"}
WINDOWS = {"os_distro": "windows", "hw_machine_type": "q35"}
REQUESTED = ImageRequest(properties=LINUX | {"hw_qemu_guest_agent": "yes"})


def hosts():
    return [
        host_state("linux", instances=[_instance(1, LINUX), _instance(2, LINUX)]),
        host_state("mixed", instances=[_instance(3, WINDOWS), _instance(4, LINUX, here=False)]),
        host_state("unknown", instances=[InstanceInfo(uuid=UUID(5))]),
        host_state("empty"),
    ]


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [
        ({}, [4.0, 1.0, 0.0, 0.0]),
        ({"os_distro": 2.0, "hw_machine_type": -0.5}, [3.0, -0.5, 0.0, 0.0]),
        ({"hw_machine_type": 1.0}, [2.0, 1.0, 0.0, 0.0]),
        ({"hw_disk_bus": 1.0}, None),
        ({"os_distro": 0.0}, None),
    ],
)
def test_instances_with_equal_properties_count_with_their_ratios(ratios, expected):
    options = FilterOptions(image_props_weight_setting=ratios)

    assert raw(ImagePropertiesWeigher, hosts(), options, image=REQUESTED) == expected


def test_image_without_properties_costs_nothing():
    assert raw(ImagePropertiesWeigher, hosts()) is None


def _instance(number, properties, here=True):
    guest = request(owner=UUID(number), instance={"image": Image(properties=properties)})
    decision = claims.instance_claim(host(), call(), NOON, guest)
    assert isinstance(decision, Granted)
    return InstanceInfo(uuid=UUID(number), here=here, claims=decision.change.puts)
