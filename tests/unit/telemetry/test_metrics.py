"""Metrics of the running agent."""

import pytest
from prometheus_client import generate_latest

from rtagent.telemetry.metrics import Metrics


@pytest.fixture
def metrics():
    return Metrics()


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_duration_is_a_histogram_by_purpose(metrics):
    metrics.timed("lock_wait", "instance_claim", 0.003)
    metrics.timed("lock_wait", "instance_claim", 0.2)

    purpose = "instance_claim"
    assert value(metrics, "rtagent_lock_wait_seconds_count", purpose=purpose) == 2
    assert value(metrics, "rtagent_lock_wait_seconds_sum", purpose=purpose) == 0.203
    assert value(metrics, "rtagent_lock_wait_seconds_bucket", purpose=purpose, le="0.005") == 1


def test_count_has_the_label_of_its_table(metrics):
    metrics.counted("refused", "insufficient")
    metrics.counted("refused", "insufficient", 2)
    metrics.counted("something_new", "here")

    assert value(metrics, "rtagent_refused_total", code="insufficient") == 3
    assert value(metrics, "rtagent_something_new_total", label="here") == 1


def test_agents_do_not_share_metrics():
    first, second = Metrics(), Metrics()
    first.counted("granted", "instance_claim")

    assert b"rtagent_granted" not in generate_latest(second.registry)


def test_gauge_is_read_at_each_scrape(metrics):
    ages = iter([1.0, 2.0])
    metrics.gauge("audit_age_seconds", "Since the last audit", lambda: next(ages))

    assert [value(metrics, "rtagent_audit_age_seconds") for _ in range(2)] == [1.0, 2.0]
