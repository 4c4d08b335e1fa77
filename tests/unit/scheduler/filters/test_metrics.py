"""MetricsFilter: the metrics that are weighed have to be there."""

from __future__ import annotations

from rtagent.conf.filter_scheduler import Metrics
from rtagent.model.metric import Metric
from rtagent.scheduler.filters.hosts import MetricsFilter
from tests.support.host_states import host_state
from tests.support.hosts import NOON
from tests.support.scheduling import passes, scheduler_request, why_not

WEIGHED = {"metrics": Metrics(weight_setting={"cpu.percent": 1.0, "cpu.user.time": -1.0})}


def _host(*names):
    return host_state(metrics=[Metric(name=name, value=1.0, timestamp=NOON) for name in names])


def test_a_host_with_the_metrics_passes():
    host = _host("cpu.percent", "cpu.user.time", "cpu.idle.time")
    assert passes(MetricsFilter, host, scheduler_request(), **WEIGHED)


def test_a_rejection_names_the_metrics_that_are_missing():
    refused = why_not(MetricsFilter, _host("cpu.percent"), scheduler_request(), **WEIGHED)
    assert refused == "it has no metric cpu.user.time"


def test_without_weighed_metrics_every_host_passes():
    assert passes(MetricsFilter, host_state(), scheduler_request())
