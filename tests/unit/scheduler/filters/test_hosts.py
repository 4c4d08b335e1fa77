"""Filters by what hosts report, and by the options that name hosts and limits."""

import pytest

from rtagent.conf.scheduler import FilterOptions, Metrics
from rtagent.model.host_report import ServiceState
from rtagent.model.metric import Metric
from rtagent.model.request import PciRequest
from rtagent.scheduler.claim_template import claim_template
from rtagent.scheduler.filter import Request
from rtagent.scheduler.filters.hosts import (
    AggregateIoOpsFilter,
    AggregateNumInstancesFilter,
    AllHostsFilter,
    ComputeFilter,
    IsolatedHostsFilter,
    MetricsFilter,
    NUMATopologyFilter,
    PciPassthroughFilter,
)
from rtagent.scheduler.fits import Fits
from tests.support.device_states import device_host
from tests.support.host_states import SEEN, aggregate, host_state
from tests.support.hosts import NOON, PINNED, host, uid
from tests.support.scheduling import passes, scheduler_request, spec, why_not


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"service": ServiceState(disabled=True, disabled_reason="new disks")},
            "its service is disabled: new disks",
        ),
        ({"service": ServiceState(forced_down=True)}, "its service is forced down"),
        ({"service": ServiceState(draining="reboot")}, "it is being drained: reboot"),
        ({"seen": SEEN - 7}, "7.0 s before"),
        ({"up": False, "why_not": "the first audit runs"}, "the first audit runs"),
        ({"up": False}, "grants no claims"),
    ],
)
def test_a_host_that_does_not_serve_is_refused(fields, reason):
    assert reason in why_not(ComputeFilter, host_state(**fields), scheduler_request())
    assert passes(AllHostsFilter, host_state(**fields), scheduler_request())


INSTANCES = ("num_instances", "max_instances_per_host")
IO_OPS = ("num_io_ops", "max_io_ops_per_host")


@pytest.mark.parametrize(
    ("kind", "names"), [(AggregateNumInstancesFilter, INSTANCES), (AggregateIoOpsFilter, IO_OPS)]
)
@pytest.mark.parametrize(
    ("values", "limit"), [(["100"], 100), (["100", "20", "30"], 20), (["0"], 0)]
)
def test_the_least_value_of_the_aggregates_comes_before_the_option(kind, names, values, limit):
    field, option = names
    aggregates = [aggregate(f"a{at}", **{option: value}) for at, value in enumerate(values)]
    full = host_state(aggregates=aggregates, **{field: limit})
    assert not passes(kind, full, scheduler_request(), **{option: 50})
    if limit:
        free = host_state(aggregates=aggregates, **{field: limit - 1})
        assert passes(kind, free, scheduler_request(), **{option: 3})


@pytest.mark.parametrize(
    ("kind", "names"), [(AggregateNumInstancesFilter, INSTANCES), (AggregateIoOpsFilter, IO_OPS)]
)
@pytest.mark.parametrize("value", ["", "many", "1.5"])
def test_a_value_that_is_no_whole_number_sets_the_host_aside(kind, names, value):
    field, option = names
    aggregates = [aggregate("good", **{option: "50"}), aggregate("bad", **{option: value})]
    host = host_state(aggregates=aggregates, **{field: 0})
    refused = why_not(kind, host, scheduler_request())
    assert refused == f"{option} of its aggregate bad is not a whole number"


IMAGE = "the-image"
OPTION = "restrict_isolated_hosts_to_isolated_images"


@pytest.mark.parametrize(
    ("restricted", "image", "host", "passing"),
    [
        (True, IMAGE, "isolated", True),
        (True, IMAGE, "other", False),
        (True, "another", "isolated", False),
        (True, "another", "other", True),
        (True, None, "isolated", False),
        (False, IMAGE, "other", False),
        (False, "another", "isolated", True),
    ],
)
def test_isolated_images_and_hosts_find_one_another(restricted, image, host, passing):
    options = {"isolated_images": (IMAGE,), "isolated_hosts": ("isolated",), OPTION: restricted}
    request = scheduler_request(image_id=image)
    assert passes(IsolatedHostsFilter, host_state(host), request, **options) is passing


WEIGHED = {"metrics": Metrics(weight_setting={"cpu.percent": 1.0, "cpu.user.time": -1.0})}


def _host(*names):
    return host_state(metrics=[Metric(name=name, value=1.0, timestamp=NOON) for name in names])


def test_a_host_has_to_have_the_metrics():
    host = _host("cpu.percent", "cpu.user.time", "cpu.idle.time")
    assert passes(MetricsFilter, host, scheduler_request(), **WEIGHED)
    refused = why_not(MetricsFilter, _host("cpu.percent"), scheduler_request(), **WEIGHED)
    assert refused == "it has no metric cpu.user.time"


PLAIN, WITH_DEVICES = host_state("cn1", host()), host_state("cn2", device_host())
PORT = PciRequest(count=1, request_id="p", spec=({"vendor_id": "10de"},), source="neutron_port")


def check(filter_class, **fields):
    wanted = spec(1, 512, **fields)
    fit = Fits().of_request(claim_template(wanted), lambda state, _: state.replica, NOON)
    request = Request(spec=wanted, instance_uuid=uid(), alive_since=0, now=NOON, fit=fit)
    return filter_class(FilterOptions()).prepare(request)


@pytest.mark.parametrize(
    ("filter_class", "fields", "why"),
    [
        (NUMATopologyFilter, {"extra_specs": PINNED}, "cpu_dedicated_set"),
        (PciPassthroughFilter, {"pci_requests": (PORT,)}, "PCI"),
        (
            PciPassthroughFilter,
            {"extra_specs": {"pci_passthrough:alias": "gpu:1"}},
            "alias of this host does not define it",
        ),
    ],
)
def test_a_host_without_what_the_guest_needs_is_refused(filter_class, fields, why):
    judge = check(filter_class, **fields)
    assert why in judge(PLAIN).message
    assert judge(WITH_DEVICES) is None
