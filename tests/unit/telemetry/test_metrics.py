"""Metrics of the running agent."""

import pytest
from prometheus_client import generate_latest

from rtagent.telemetry.metrics import MAX_LABELS, OTHER, Metrics


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


def test_metrics_without_a_value_have_their_names_from_the_start_on(metrics):
    text = generate_latest(metrics.registry).decode()
    assert "# TYPE rtagent_refused_total counter" in text
    assert "# TYPE rtagent_rpc_seconds histogram" in text


def test_gauge_is_read_at_each_scrape(metrics):
    ages = iter([1.0, 2.0])
    metrics.gauge("audit_age_seconds", "Since the last audit", lambda: next(ages))

    assert [value(metrics, "rtagent_audit_age_seconds") for _ in range(2)] == [1.0, 2.0]


def test_gauge_with_a_label_is_read_at_each_scrape(metrics):
    values = {"a": 1.0}
    metrics.gauges("ages", "state", "Ages", lambda: values)
    assert value(metrics, "rtagent_ages", state="a") == 1.0
    values["b"] = 2.0
    assert value(metrics, "rtagent_ages", state="b") == 2.0


def test_number_of_labels_of_a_metric_is_bounded(metrics):
    for number in range(MAX_LABELS + 50):
        metrics.counted("refused", f"code-{number}")
        metrics.timed("rpc", f"method-{number}", 0.1)
    metrics.counted("refused", "code-0")
    metrics.counted("rpc", "ok")  # another metric has labels of its own
    assert value(metrics, "rtagent_refused_total", code="code-0") == 2
    assert value(metrics, "rtagent_refused_total", code=OTHER) == 50
    assert value(metrics, "rtagent_rpc_seconds_count", method=OTHER) == 50
    assert value(metrics, "rtagent_rpc_total", outcome="ok") == 1
    text = generate_latest(metrics.registry).decode()
    assert text.count("rtagent_refused_total{") == MAX_LABELS + 1


def test_labels_are_escaped_and_short(metrics):
    odd = 'x"\n\x1b[2J\ud800'
    metrics.counted("log_dropped", odd + "y" * 10_000)
    metrics.gauges("ages", "state", "Ages", lambda: {odd: 1.0})
    metrics.numbers("errors", "kind", "Errors", lambda: {odd: 1})
    metrics.info("build", "The software", {"version": odd})
    text = generate_latest(metrics.registry).decode()
    lines = [line for line in text.splitlines() if "2J" in line]
    assert len(lines) >= 4
    assert all(line.isprintable() and len(line) < 300 for line in lines)
    assert all(r"x\"" in line for line in lines)
