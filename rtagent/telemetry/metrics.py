"""Metrics: durations, counts and gauges, in a registry that belongs to the agent."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, ProcessCollector
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rtagent.model.printable import printable

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
    "selection": ("purpose", "Selection of hosts for one request"),
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
    "selections": ("outcome", "Requests for selections: ok, or the error's name"),
    "host_reports": ("outcome", "Reports to schedulers: sent or dropped"),
    "events_dropped": (
        "reason",
        "Events that no consumer gets: unpublished in time, or announced while too many waited",
    ),
    "log_dropped": ("destination", "Log lines dropped because the destination accepted none"),
    "read_api_closed": (
        "reason",
        "Connections of idle clients that the read API closed: deadline or limit",
    ),
    "read_api_refused": (
        "reason",
        "Requests that the read API refused: peer (not one of the readers), token (missing or"
        " wrong), host (not a name of it)",
    ),
    "calls_refused": (
        "reason",
        "Calls that their caller may not make: signature (missing or wrong), role (missing), calls"
        " (too many at once), rate (too many per second)",
    ),
    "rpc_refused": ("reason", "Messages dropped without an answer, before they were parsed"),
    "rpc_given_up": ("label", "Replies that no queue of their caller has taken"),
    "repeated": ("level", "Log lines suppressed because the same line was logged before"),
}

#: The most label values of one metric. Further ones share `OTHER`, so that no caller can fill the
#: memory of the agent or of the metrics server.
MAX_LABELS = 200
OTHER = "other"
#: Characters of a label.
MAX_LABEL = 120

_Family = TypeVar("_Family", Histogram, Counter)


class Metrics:
    """Thread-safe. A name that neither table describes becomes a metric as well."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._timings = _Labelled(self._histogram, TIMINGS)
        self._counts = _Labelled(self._counter, COUNTS)

    def timed(self, name: str, purpose: str, seconds: float) -> None:
        """Observe a duration in the histogram ``rtagent_<name>_seconds``."""
        self._timings.get(name, purpose).observe(seconds)

    def counted(self, name: str, label: str, number: int = 1) -> None:
        """Add to the counter ``rtagent_<name>_total``."""
        self._counts.get(name, label).inc(number)

    def gauge(self, name: str, what: str, value: Callable[[], float]) -> None:
        """Register the gauge ``rtagent_<name>``, whose value is read at each scrape.

        :param what: the help text.
        """
        Gauge(f"rtagent_{name}", what, registry=self.registry).set_function(value)

    def numbers(
        self, name: str, label: str, what: str, values: Callable[[], Mapping[str, int]]
    ) -> None:
        """Register the counter ``rtagent_<name>_total``, whose values are read at each scrape.

        :param what: the help text. :param values: returns the values by label.
        """
        make = partial(CounterMetricFamily, f"rtagent_{name}", what, labels=(label,))
        self.registry.register(_Values(make, values))

    def gauges(
        self, name: str, label: str, what: str, values: Callable[[], Mapping[str, float]]
    ) -> None:
        """Register the gauge ``rtagent_<name>`` with one label, whose values are read at each
        scrape.

        :param what: the help text. :param values: returns the values by label.
        """
        make = partial(GaugeMetricFamily, f"rtagent_{name}", what, labels=(label,))
        self.registry.register(_Values(make, values))

    def info(self, name: str, what: str, labels: Mapping[str, str]) -> None:
        """Register the gauge ``rtagent_<name>_info``, which is always 1."""
        shown = {label: printable(value, MAX_LABEL) for label, value in labels.items()}
        Info(f"rtagent_{name}", what, registry=self.registry).info(shown)

    def _histogram(self, name: str) -> Histogram:
        label, what = TIMINGS.get(name, ("purpose", name))
        return Histogram(
            f"rtagent_{name}_seconds", what, (label,), registry=self.registry, buckets=BUCKETS
        )

    def _counter(self, name: str) -> Counter:
        label, what = COUNTS.get(name, ("label", name))
        return Counter(f"rtagent_{name}", what, (label,), registry=self.registry)


class _Labelled(Generic[_Family]):
    """Metrics of one type, by name and label. Thread-safe."""

    def __init__(self, make: Callable[[str], _Family], names: Iterable[str]) -> None:
        """:param names: of metrics without a value yet, so that dashboards and alerts find them."""
        self._make: Callable[[str], _Family] = make
        self._families: dict[str, _Family] = {name: make(name) for name in names}
        self._lock = threading.Lock()
        # The library's own lookup takes a lock at each call.
        self._known: dict[tuple[str, str], _Family] = {}

    def get(self, name: str, label: str) -> _Family:
        """Return the metric with this label, or that of `OTHER` if there are too many."""
        if (found := self._known.get((name, label))) is not None:
            return found
        text = printable(label, MAX_LABEL)
        with self._lock:
            if name not in self._families:
                self._families[name] = self._make(name)
            if (name, text) not in self._known:
                if sum(each == name for each, _ in self._known) >= MAX_LABELS:
                    text = OTHER
                self._known[name, text] = self._families[name].labels(text)
            return self._known[name, text]


class _Values(Collector):
    """A metric with one label, of which another object keeps the values. :param make: makes it."""

    def __init__(
        self,
        make: Callable[[], CounterMetricFamily | GaugeMetricFamily],
        values: Callable[[], Mapping[str, float]],
    ) -> None:
        self._make, self._values = make, values

    def collect(self) -> Iterator[Metric]:
        metric = self._make()
        for label, value in dict(self._values()).items():
            metric.add_metric((printable(label, MAX_LABEL),), value)
        yield metric
