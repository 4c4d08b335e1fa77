"""What a running agent tells of itself."""

from datetime import timedelta

import pytest
from prometheus_client import generate_latest

from rtagent.model.health import Check, Status
from rtagent.telemetry.metrics import Metrics
from rtagent.telemetry.sayings import REMEMBERED, WINDOW, Sayings
from rtagent.telemetry.telemetry import Telemetry
from tests.builders import NOON, ManualClock


def value(telemetry: Telemetry, name: str, **labels: str) -> float | None:
    return telemetry.metrics.registry.get_sample_value(name, labels)


def test_a_duration_is_a_histogram_by_purpose():
    telemetry = Telemetry(ManualClock())

    telemetry.timed("lock_wait", "instance_claim", 0.003)
    telemetry.timed("lock_wait", "instance_claim", 0.2)

    purpose = "instance_claim"
    assert value(telemetry, "rtagent_lock_wait_seconds_count", purpose=purpose) == 2
    assert value(telemetry, "rtagent_lock_wait_seconds_sum", purpose=purpose) == 0.203
    assert value(telemetry, "rtagent_lock_wait_seconds_bucket", purpose=purpose, le="0.005") == 1


def test_a_count_has_the_label_that_its_table_gives():
    telemetry = Telemetry(ManualClock())

    telemetry.counted("refused", "insufficient")
    telemetry.counted("refused", "insufficient", 2)
    telemetry.counted("something_new", "here")

    assert value(telemetry, "rtagent_refused_total", code="insufficient") == 3
    assert value(telemetry, "rtagent_something_new_total", label="here") == 1


def test_agents_do_not_share_their_metrics():
    first, second = Metrics(), Metrics()
    first.counted("granted", "instance_claim")

    assert b"rtagent_granted" not in generate_latest(second.registry)


def test_a_gauge_is_asked_at_each_scrape():
    metrics, ages = Metrics(), iter([1.0, 2.0])
    metrics.gauge("audit_age_seconds", "Since the last audit", lambda: next(ages))

    read = [metrics.registry.get_sample_value("rtagent_audit_age_seconds") for _ in range(2)]

    assert read == [1.0, 2.0]


def test_health_remembers_since_when_a_part_is_so():
    clock = ManualClock()
    telemetry = Telemetry(clock)

    telemetry.health("store", "fail", "no route")
    clock.advance(10)
    telemetry.health("store", "fail", "refused")
    telemetry.health("audit", "pass")

    assert telemetry.checks() == (
        Check(part="audit", status=Status.PASS, time=NOON + timedelta(seconds=10)),
        Check(part="store", status=Status.FAIL, time=NOON, output="refused"),
    )


def test_a_change_of_health_is_logged_once(caplog):
    telemetry = Telemetry(ManualClock())

    with caplog.at_level("DEBUG"):
        for status, output in (("pass", ""), ("fail", "gone"), ("fail", "still"), ("pass", "")):
            telemetry.health("store", status, output)

    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("ERROR", "health of store is fail: gone"),
        ("INFO", "health of store is pass"),
    ]


def test_a_repeated_warning_is_logged_once_and_counted(caplog):
    telemetry = Telemetry(ManualClock())

    with caplog.at_level("DEBUG"):
        for _ in range(3):
            telemetry.said("warning", "100% odd")

    assert [record.message for record in caplog.records] == ["100% odd"]
    assert value(telemetry, "rtagent_repeated_total", level="warning") == 2


@pytest.mark.parametrize("level", ["debug", "info"])
def test_what_is_no_warning_is_always_said(level):
    sayings = Sayings(ManualClock())

    assert [sayings.admit(level, "done") for _ in range(3)] == ["done"] * 3


def test_a_warning_that_goes_on_is_said_again_with_its_number():
    clock = ManualClock()
    sayings = Sayings(clock)
    first = [sayings.admit("error", "odd") for _ in range(3)]
    clock.advance(WINDOW)

    again = [sayings.admit("error", "odd") for _ in range(2)]

    assert first == ["odd", None, None]
    assert again == ["odd (and 2 times since it was last logged)", None]


def test_only_so_many_warnings_are_remembered():
    sayings = Sayings(ManualClock())
    for number in range(REMEMBERED + 1):
        sayings.admit("warning", f"odd {number}")

    assert sayings.admit("warning", "odd 1") is None
    assert sayings.admit("warning", "odd 0") == "odd 0"
