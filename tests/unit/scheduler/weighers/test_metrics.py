"""MetricsWeigher."""

import math
from datetime import UTC, datetime

import pytest

from rtagent.conf.filter_scheduler import FilterOptions, Metrics
from rtagent.model.metric import Metric
from rtagent.scheduler.weighers import MetricsWeigher
from tests.support.host_states import aggregate, host_state
from tests.support.scheduling import raw, weigh, weights


def options(required=True, **ratios):
    return FilterOptions(metrics=Metrics(weight_setting=ratios, required=required))


def host(name, *, aggregates=(), **values):
    now = datetime(2026, 6, 1, tzinfo=UTC)
    metrics = [Metric(name=key, value=value, timestamp=now) for key, value in values.items()]
    return host_state(name, metrics=metrics, aggregates=aggregates)


def test_metrics_are_added_with_their_ratios():
    hosts = [host("a", x=1.0, y=8.0), host("b", x=4.0, y=1.5, z=100.0)]

    assert raw(MetricsWeigher, hosts, options(x=2.0, y=-1.0)) == [-6.0, 6.5]


def test_without_setting_metrics_cost_nothing():
    assert raw(MetricsWeigher, [host("a", x=1.0)]) is None


def test_host_without_a_required_metric_comes_after_all_others_and_is_named():
    lacking = host("a", y=1.0)
    hosts = [lacking, host("c", x=-5.0), host("b", x=2.0)]

    weighed = weigh(MetricsWeigher, hosts, options(x=1.0))

    assert list(weights(MetricsWeigher, hosts, options(x=1.0)).items()) == [
        ("b", 1.0),
        ("c", 0.0),
        ("a", 0.0),
    ]
    (score,) = weighed.scores()[lacking.uuid]
    assert (score.raw, score.problem) == (None, "the host has no metric x, which is required")


def test_host_without_a_metric_that_is_not_required_has_the_weight_of_unavailable():
    hosts = [host("a", y=1.0), host("b", x=2.0)]

    assert raw(MetricsWeigher, hosts, options(required=False, x=1.0)) == [-10000.0, 2.0]
    assert raw(MetricsWeigher, hosts, options(required=False, x=0.0, y=1.0)) == [1.0, -10000.0]


def test_missing_metric_is_ignored_where_an_aggregate_sets_the_multiplier_to_0():
    ignoring = aggregate("ignoring", "a", metrics_weight_multiplier="0")
    hosts = [host("a", aggregates=[ignoring]), host("b", x=2.0), host("c", x=1.0)]

    assert weights(MetricsWeigher, hosts, options(required=False, x=1.0)) == {
        "b": 1.0,
        "c": 0.5,
        "a": 0.0,
    }


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_measurement_that_is_no_number_does_not_end_the_request(value):
    hosts = [host("a", x=value), host("b", x=2.0), host("c", x=1.0)]

    assert list(weights(MetricsWeigher, hosts, options(x=1.0))) == ["b", "c", "a"]


def test_multiplier_is_that_of_its_own_group():
    metrics = Metrics(weight_setting={"x": 1.0}, weight_multiplier=-3.0)
    hosts = [host("a", x=1.0), host("b", x=2.0)]

    assert weights(MetricsWeigher, hosts, FilterOptions(metrics=metrics)) == {"a": 0.0, "b": -3.0}
