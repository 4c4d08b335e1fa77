"""Telemetry: the reporter of a running agent, with its health, its log and its metrics."""

import copy
import logging
import threading
from collections import OrderedDict
from typing import Self

from oslo_log import log

from rtagent.model.health import Check, Status
from rtagent.ports import Clock
from rtagent.telemetry.metrics import Metrics
from rtagent.telemetry.timeline import Timeline

#: The level at which a part's new status is logged.
STATUS_LEVELS = {Status.PASS: "info", Status.WARN: "warning", Status.FAIL: "error"}
#: Levels of which a repeated line is suppressed.
THROTTLED = frozenset({"warning", "error"})
#: Seconds during which a repeated line is only counted.
WINDOW = 300.0
#: How many different lines the throttle remembers.
REMEMBERED = 256


class Telemetry:
    """A `Reporter`. Thread-safe; each method returns at once.

    The reporters that `named` returns share the metrics, the health and the throttle, and differ
    in the logger that they write to.

    :ivar metrics: the counters, histograms and gauges of this process.
    :ivar timeline: the events of the last hour.
    """

    def __init__(self, clock: Clock) -> None:
        self.metrics = Metrics()
        self.timeline = Timeline(clock)
        self._health = Health(clock)
        self._throttle = LogThrottle(clock)
        self._log = log.getLogger("rtagent")

    def named(self, origin: str) -> Self:
        """A reporter that logs under `origin`, a module's ``__name__``.

        Thus ``[DEFAULT] default_log_levels`` selects the level of one module or package.
        """
        reporter = copy.copy(self)
        reporter._log = log.getLogger(origin)
        return reporter

    def timed(self, name: str, purpose: str, seconds: float) -> None:
        self.metrics.timed(name, purpose, seconds)

    def counted(self, name: str, label: str, number: int = 1) -> None:
        self.metrics.counted(name, label, number)

    def health(self, part: str, status: str, output: str = "") -> None:
        """Record the status of a part, and log it if it has changed.

        Every change is logged, so that the last line about a part says how it is.
        """
        if self._health.note(part, status, output):
            self.timeline.health(part, Status(status), output)
            why = f": {output}" if output else ""
            self._write(STATUS_LEVELS[Status(status)], f"health of {part} is {status}{why}")

    def log(self, level: str, sentence: str) -> None:
        """Log a line, unless the same warning or error was logged within `WINDOW` seconds."""
        line = self._throttle.admit(level, sentence)
        if line is None:
            self.metrics.counted("repeated", level)
        else:
            self._write(level, line)

    def _write(self, level: str, line: str) -> None:
        self._log.log(logging.getLevelNamesMapping()[level.upper()], line)

    def checks(self) -> tuple[Check, ...]:
        """The last status of every part that has reported one, by name."""
        return self._health.checks()


class Health:
    """The last status of each part, and the time of its last change. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._checks: dict[str, Check] = {}

    def note(self, part: str, status: str, output: str = "") -> bool:
        """Record a status and return whether it has changed.

        A part counts as healthy until it reports another status. The recorded time is that of the
        last change of the status, not of the output.
        """
        now = Status(status)
        with self._lock:
            last = self._checks.get(part)
            same = last is not None and last.status == now
            since = last.time if last is not None and same else self._clock.now()
            self._checks[part] = Check(part=part, status=now, time=since, output=output)
        return not same and (last is not None or now != Status.PASS)

    def checks(self) -> tuple[Check, ...]:
        """Every part, by name."""
        with self._lock:
            return tuple(self._checks[part] for part in sorted(self._checks))


class LogThrottle:
    """Suppresses repeated warnings and errors, and counts them. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # By level and line: the time when it was last logged, and how often it was suppressed since
        # then.
        self._seen: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()

    def admit(self, level: str, line: str) -> str | None:
        """Return the line to log, or None if it was logged less than `WINDOW` seconds ago.

        The number of times that the line was suppressed in between is appended.
        """
        if level not in THROTTLED:
            return line
        key, now = (level, line), self._clock.monotonic()
        with self._lock:
            last, suppressed = self._seen.pop(key, (now - WINDOW, 0))
            fresh = now - last >= WINDOW
            self._seen[key] = (now, 0) if fresh else (last, suppressed + 1)
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
        if not fresh:
            return None
        return f"{line} (and {suppressed} times since it was last logged)" if suppressed else line
