"""The gauges that every daemon has; they are read at each scrape."""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Mapping

import rtagent
from rtagent.rpc.in_flight import InFlight
from rtagent.service.liveness import Liveness
from rtagent.telemetry.metrics import Metrics


def measure_process(
    metrics: Metrics,
    service: str,
    in_flight: InFlight,
    sql_errors: Callable[[], Mapping[str, int]],
) -> None:
    """Register them. :param sql_errors: failed transactions by kind."""
    build = {
        "service": service,
        "version": rtagent.__version__,
        "python": platform.python_version(),
    }
    metrics.info("build", "The running software", build)
    metrics.gauge("calls_in_flight", "RPC calls that are being served", lambda: len(in_flight))
    metrics.gauge("threads", "Threads of the process", threading.active_count)
    metrics.numbers("sql_errors", "kind", "Failed transactions of the database", sql_errors)


def measure_threads(metrics: Metrics, liveness: Liveness) -> None:
    """Register the progress of the threads that the watchdog checks."""
    metrics.gauges(
        "thread_late_seconds",
        "thread",
        "Seconds since the last progress that was due",
        liveness.overdue,
    )
