"""The reporter of the running agent: health, throttled log lines, one logger per module."""

from datetime import timedelta

import pytest

from rtagent.model.health import Check, Status
from rtagent.telemetry.telemetry import REMEMBERED, WINDOW, LogThrottle, Telemetry
from tests.support.hosts import NOON, ManualClock


@pytest.fixture
def telemetry():
    return Telemetry(ManualClock())


def test_health_keeps_the_time_of_the_last_change_of_status():
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


def test_change_of_health_is_logged_once(telemetry, caplog):
    with caplog.at_level("DEBUG"):
        for status, output in (("pass", ""), ("fail", "gone"), ("fail", "still"), ("pass", "")):
            telemetry.health("store", status, output)

    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("ERROR", "health of store is fail: gone"),
        ("INFO", "health of store is pass"),
    ]


def test_repeated_warning_is_logged_once_and_counted(telemetry, caplog):
    with caplog.at_level("DEBUG"):
        for _ in range(3):
            telemetry.log("warning", "100% odd")

    assert [record.message for record in caplog.records] == ["100% odd"]
    registry = telemetry.metrics.registry
    assert registry.get_sample_value("rtagent_repeated_total", {"level": "warning"}) == 2


@pytest.mark.parametrize("level", ["debug", "info"])
def test_lines_below_warning_are_never_suppressed(level):
    throttle = LogThrottle(ManualClock())

    assert [throttle.admit(level, "done") for _ in range(3)] == ["done"] * 3


def test_suppressed_warning_is_logged_again_with_its_count():
    clock = ManualClock()
    throttle = LogThrottle(clock)
    first = [throttle.admit("error", "odd") for _ in range(3)]
    clock.advance(WINDOW)

    again = [throttle.admit("error", "odd") for _ in range(2)]

    assert first == ["odd", None, None]
    assert again == ["odd (and 2 times since it was last logged)", None]


def test_throttle_forgets_the_oldest_of_many_warnings():
    throttle = LogThrottle(ManualClock())
    for number in range(REMEMBERED + 1):
        throttle.admit("warning", f"odd {number}")

    assert throttle.admit("warning", "odd 1") is None
    assert throttle.admit("warning", "odd 0") == "odd 0"


def test_named_reporters_share_metrics_health_and_throttle(telemetry, caplog):
    one, other = telemetry.named("rtagent.one"), telemetry.named("rtagent.other")

    one.counted("granted", "instance_claim")
    other.counted("granted", "instance_claim")
    one.health("store", "fail", "gone")
    with caplog.at_level("WARNING"):
        one.log("warning", "odd")
        other.log("warning", "odd")

    registry = telemetry.metrics.registry
    assert registry.get_sample_value("rtagent_granted_total", {"method": "instance_claim"}) == 2
    assert [check.part for check in other.checks()] == ["store"]
    assert [r.name for r in caplog.records if r.message == "odd"] == ["rtagent.one"]
