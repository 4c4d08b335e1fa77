"""The reporter of the running agent: health, throttled log lines, log of claims, metrics."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from prometheus_client import generate_latest

from rtagent import claims
from rtagent.model.health import Check, Status
from rtagent.telemetry.claim_log import ClaimLog
from rtagent.telemetry.log_queue import MAX_MESSAGE
from rtagent.telemetry.metrics import MAX_LABELS, OTHER, Metrics
from rtagent.telemetry.telemetry import REMEMBERED, WINDOW, LogThrottle, Telemetry
from tests.support.hosts import NOON, ManualClock, call, host, request, uid
from tests.support.trackers import Reports


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

    audit = Check(part="audit", status=Status.PASS, time=NOON + timedelta(seconds=10))
    store = Check(part="store", status=Status.FAIL, time=NOON, output="refused")
    assert telemetry.checks() == (audit, store)


def test_change_of_health_is_logged_once(telemetry, caplog):
    with caplog.at_level("DEBUG"):
        for status, output in (("pass", ""), ("fail", "gone"), ("fail", "still"), ("pass", "")):
            telemetry.health("store", status, output)

    lines = [(record.levelname, record.message) for record in caplog.records]
    fail, good = ("ERROR", "health of store is fail: gone"), ("INFO", "health of store is pass")
    assert lines == [fail, good]


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


def test_creation_and_release_of_a_claim_are_logged():
    log, state = Reports(), host()
    asked = replace(call(operation_id=uid(2)), actor="user-1", request_id="req-1")
    build = claims.instance_claim(state, asked, NOON, request(2, 1024, 3, owner=uid(1)))
    state = state.fold(build.change)
    end = claims.release_claim(state, call("release_claim"), NOON, uid(2))

    claim_log = ClaimLog(log)
    added = [claim_log.add((build.change,)), claim_log.add((end.change,))]
    assert (log.logged, added) == ([], [True, False]), "no caller waits for the log"
    claim_log.write()

    quantities = "2 vCPUs, 1024 MB, 3072 MB of disk"
    assert log.logged == [
        (
            "info",
            f"create claim {uid(2)} of instance {uid(1)}: building, {quantities}"
            " (instance_claim by user-1 req-1); "
            f"release claim {uid(2)} of instance {uid(1)}: released, {quantities} (release_claim)",
        )
    ]


def test_change_without_a_claim_is_not_logged():
    log = Reports()
    counted = claims.build_failed(host(), call("build_failed"), NOON)

    claim_log = ClaimLog(log)
    assert not claim_log.add((counted.change,))
    claim_log.write()

    assert log.logged == []


def test_texts_of_callers_are_escaped_and_neither_they_nor_lines_grow_without_bound():
    log, state = Reports(), host(cpu_allocation_ratio=100)
    asked = replace(call(), actor="a\n" * 10_000, request_id="r" * 10_000)
    claim_log = ClaimLog(log)
    for _ in range(40):
        claim_log.add((claims.instance_claim(state, asked, NOON, request(1, 1)).change,))
    claim_log.write()
    assert sum(line.count("create claim") for _, line in log.logged) == 40
    assert all(line.isprintable() and len(line) < MAX_MESSAGE for _, line in log.logged)


@pytest.fixture
def metrics():
    return Metrics()


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


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


def test_gauges_are_read_at_each_scrape(metrics):
    values = {"a": 1.0}
    metrics.gauge("age", "Age", lambda: values["a"])
    metrics.gauges("ages", "state", "Ages", lambda: values)
    assert value(metrics, "rtagent_ages", state="a") == value(metrics, "rtagent_age") == 1.0
    values |= {"a": 2.0, "b": 3.0}
    assert value(metrics, "rtagent_age") == 2.0
    assert value(metrics, "rtagent_ages", state="b") == 3.0


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
