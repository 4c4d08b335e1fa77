"""Metrics: durations, counts and gauges, in a registry that belongs to the agent."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

#: Bounds of the histograms in seconds, from the wait for a lock to a whole audit.
BUCKETS = (
    *(0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05),
    *(0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0),
)

#: By the name that reporters receive: the label, and the help text.
TIMINGS = {
    "lock_wait": ("purpose", "Wait for the state writer's lock"),
    "lock_hold": ("purpose", "Decision and commit of one batch, under the lock"),
    "audit": ("cause", "A whole audit"),
    "rpc": ("method", "An RPC call, from its arrival to its answer"),
    "placement": ("purpose", "A request to Placement"),
}
COUNTS = {
    "granted": ("method", "Calls that changed the state"),
    "refused": ("code", "Reasons of refusals"),
    "rpc": ("outcome", "RPC calls answered: ok, or the error's name"),
    "audit_skipped": ("cause", "Audit steps skipped because a claim changed the same item"),
    "placement": (
        "event",
        "Attempts to update a provider that another client changed: conflict; allocations that the"
        " agent removed or added: allocation_removed, allocation_healed",
    ),
    "log_dropped": ("destination", "Log lines dropped because the destination accepted none"),
    "read_api_closed": (
        "reason",
        "Connections of idle clients that the read API closed: deadline or limit",
    ),
    "rpc_refused": ("reason", "Messages dropped without an answer, before they were parsed"),
    "rpc_given_up": ("label", "Replies that no queue of their caller has taken"),
    "repeated": ("level", "Log lines suppressed because the same line was logged before"),
}

_Family = TypeVar("_Family", Histogram, Counter)


class Metrics:
    """Thread-safe. A name that neither table describes becomes a metric as well."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._lock = threading.Lock()
        self._timings: dict[str, Histogram] = {}
        self._counts: dict[str, Counter] = {}
        # By name and label. The library's own lookup takes a lock at each call.
        self._timers: dict[tuple[str, str], Histogram] = {}
        self._counters: dict[tuple[str, str], Counter] = {}

    def timed(self, name: str, purpose: str, seconds: float) -> None:
        """Observe a duration in the histogram ``rtagent_<name>_seconds``."""
        timer = self._timers.get((name, purpose))
        if timer is None:
            family = self._make(self._timings, name, self._histogram)
            timer = self._timers[name, purpose] = family.labels(purpose)
        timer.observe(seconds)

    def counted(self, name: str, label: str, number: int = 1) -> None:
        """Add to the counter ``rtagent_<name>_total``."""
        counter = self._counters.get((name, label))
        if counter is None:
            family = self._make(self._counts, name, self._counter)
            counter = self._counters[name, label] = family.labels(label)
        counter.inc(number)

    def gauge(self, name: str, what: str, value: Callable[[], float]) -> None:
        """Register the gauge ``rtagent_<name>``, whose value is read at each scrape.

        :param what: the help text.
        """
        Gauge(f"rtagent_{name}", what, registry=self.registry).set_function(value)

    def _make(
        self, families: dict[str, _Family], name: str, make: Callable[[str], _Family]
    ) -> _Family:
        with self._lock:
            if name not in families:
                families[name] = make(name)
            return families[name]

    def _histogram(self, name: str) -> Histogram:
        label, what = TIMINGS.get(name, ("purpose", name))
        return Histogram(
            f"rtagent_{name}_seconds", what, (label,), registry=self.registry, buckets=BUCKETS
        )

    def _counter(self, name: str) -> Counter:
        label, what = COUNTS.get(name, ("label", name))
        return Counter(f"rtagent_{name}", what, (label,), registry=self.registry)
