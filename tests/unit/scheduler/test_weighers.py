"""The weighers that are installed."""

from datetime import UTC, datetime

import pytest

from rtagent.conf.scheduler import FilterOptions, Metrics
from rtagent.model.host_report import InstanceInfo
from rtagent.model.metric import Metric
from rtagent.model.request import Image
from rtagent.model.server import ImageRequest
from rtagent.scheduler.weighers import (
    BuildFailureWeigher,
    CPUWeigher,
    CrossCellWeigher,
    DiskWeigher,
    HypervisorVersionWeigher,
    ImagePropertiesWeigher,
    IoOpsWeigher,
    MetricsWeigher,
    PCIWeigher,
    RAMWeigher,
    ServerGroupSoftAffinityWeigher,
    ServerGroupSoftAntiAffinityWeigher,
)
from tests.support.device_states import build_claim
from tests.support.host_states import aggregate, host_state
from tests.support.hosts import host, request
from tests.support.scheduling import UUID, group, raw, weigh, weights

FIELDS = [(RAMWeigher, "free_ram_mb"), (DiskWeigher, "free_disk_mb")]


@pytest.mark.parametrize(("weigher", "field"), FIELDS)
def test_less_than_nothing_counts_as_nothing(weigher, field):
    hosts = [host_state("a", **{field: -900}), host_state("b", **{field: 0})]

    assert weights(weigher, [*hosts, host_state("c", **{field: 1})]) == {"c": 1, "a": 0, "b": 0}
    assert weights(weigher, hosts) == {"a": 0, "b": 0}


def test_free_vcpus_are_counted_with_the_ratio():
    host = host_state(vcpus_total=4, vcpus_used=3, cpu_allocation_ratio=2.5)
    promised = host_state("b", vcpus_total=4, vcpus_used=20)

    assert raw(CPUWeigher, [host, promised]) == [7.0, -16.0]
    assert weights(CPUWeigher, [host, promised]) == {"cn1": 1.0, "b": 0.0}


@pytest.mark.parametrize(
    ("weigher", "field", "expected"),
    [
        (RAMWeigher, "free_ram_mb", {"b": 1.0, "a": 0.5}),
        (DiskWeigher, "free_disk_mb", {"b": 1.0, "a": 0.5}),
        (PCIWeigher, "available_devices", {"a": 1.0, "b": 0.0}),
        (IoOpsWeigher, "num_io_ops", {"a": -0.5, "b": -1.0}),
        (HypervisorVersionWeigher, "hypervisor_version", {"b": 1.0, "a": 0.0}),
        (BuildFailureWeigher, "failed_builds", {"a": 0.0, "b": -1000000.0}),
    ],
)
def test_by_default(weigher, field, expected):
    hosts = [host_state("b", **{field: 4}), host_state("a", **{field: 2})]

    assert list(weights(weigher, hosts).items()) == list(expected.items())


def test_hosts_with_very_many_devices_are_not_distinguished():
    hosts = [host_state(str(number), available_devices=number) for number in (98, 99, 500)]
    assert raw(PCIWeigher, hosts) == [2, 1, 1]


def test_multiplier_of_failed_builds_is_subtracted_also_that_of_an_aggregate():
    brave = aggregate("brave", "b", build_failure_weight_multiplier="10")
    never, often = host_state("a", failed_builds=0), host_state("c", failed_builds=4)
    hosts = [never, host_state("b", failed_builds=4, aggregates=[brave]), often]

    assert weights(BuildFailureWeigher, hosts) == {"a": 0.0, "b": -10.0, "c": -1000000.0}


def options(required=True, **ratios):
    return FilterOptions(metrics=Metrics(weight_setting=ratios, required=required))


def measured(name, **values):
    now = datetime(2026, 6, 1, tzinfo=UTC)
    metrics = [Metric(name=key, value=value, timestamp=now) for key, value in values.items()]
    return host_state(name, metrics=metrics)


def test_host_without_a_required_metric_comes_after_all_others_and_is_named():
    hosts = [measured("a", y=1.0), measured("c", x=-5.0), measured("b", x=2.0)]

    found = weights(MetricsWeigher, hosts, options(x=1.0))
    assert list(found.items()) == [("b", 1.0), ("c", 0.0), ("a", 0.0)]
    (score,) = weigh(MetricsWeigher, hosts, options(x=1.0)).scores()[hosts[0].uuid]
    assert (score.raw, score.problem) == (None, "the host has no metric x, which is required")


def test_metrics_are_added_with_their_ratios():
    hosts = [measured("a", x=1.0, y=8.0), measured("b", x=4.0, y=1.5, z=100.0)]
    assert raw(MetricsWeigher, hosts, options(x=2.0, y=-1.0)) == [-6.0, 6.5]
    ignoring = aggregate("ignoring", "c", metrics_weight_multiplier="0")
    ignored = [host_state("c", aggregates=[ignoring])]
    assert raw(MetricsWeigher, ignored, options(required=False, x=1.0)) == [0.0]


def test_host_without_a_metric_that_is_not_required_has_the_weight_of_unavailable():
    hosts = [measured("a", y=1.0), measured("b", x=2.0)]

    assert raw(MetricsWeigher, hosts, options(required=False, x=1.0)) == [-10000.0, 2.0]
    assert raw(MetricsWeigher, hosts, options(required=False, x=0.0, y=1.0)) == [1.0, -10000.0]


def test_multiplier_is_that_of_its_own_group():
    metrics = Metrics(weight_setting={"x": 1.0}, weight_multiplier=-3.0)
    hosts = [measured("a", x=1.0), measured("b", x=2.0)]

    assert weights(MetricsWeigher, hosts, FilterOptions(metrics=metrics)) == {"a": 0.0, "b": -3.0}


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
        ({"os_distro": 0.0}, None),
    ],
)
def test_instances_with_equal_properties_count_with_their_ratios(ratios, expected):
    options = FilterOptions(image_props_weight_setting=ratios)

    assert raw(ImagePropertiesWeigher, hosts(), options, image=REQUESTED) == expected


def _instance(number, properties, here=True):
    guest = request(owner=UUID(number), instance={"image": Image(properties=properties)})
    _, claim = build_claim(host(), guest)
    return InstanceInfo(uuid=UUID(number), here=here, claims=(claim,))


BOTH = (ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher)
LEAVING = InstanceInfo(uuid=UUID(3), here=False)
MEMBERS_OF = {"a": [UUID(1), UUID(2), UUID(9)], "b": [UUID(3), UUID(8)], "c": [LEAVING]}
HOSTS = tuple(host_state(name, instances=guests) for name, guests in MEMBERS_OF.items())
MEMBERS = (UUID(1), UUID(2), UUID(3), UUID(4))


@pytest.mark.parametrize(
    ("policy", "affinity", "anti"),
    [
        ("soft-affinity", [2, 1, 0], None),
        ("soft-anti-affinity", None, [-2, -1, 0]),
        ("affinity", None, None),
    ],
)
def test_instances_of_the_group_on_the_host_count(policy, affinity, anti):
    found = [raw(each, HOSTS, instance_group=group(policy, *MEMBERS)) for each in BOTH]

    assert found == [affinity, anti]


@pytest.mark.parametrize(
    "weigher", [*BOTH, CrossCellWeigher, ImagePropertiesWeigher, MetricsWeigher], ids=str
)
def test_what_neither_the_request_nor_an_option_asks_for_costs_nothing(weigher):
    assert raw(weigher, HOSTS) is None
