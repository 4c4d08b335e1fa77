"""Sampler: the load of the parts of a fleet, second by second."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from typing import Self

from benchmarks.fleet.counts import cpu_of_parts
from benchmarks.fleet.fleet import Fleet
from benchmarks.fleet.measured import Curves

#: Seconds between two samples.
INTERVAL = 1.0
REQUESTS, TRANSACTIONS = "requests to Placement", "transactions that write"


class Sampler:
    """Takes samples on a thread of its own, for the length of a block."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._rates: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self._cpu: dict[str, list[tuple[float, float]]] = defaultdict(list)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def peak(self, name: str) -> float:
        """Return the largest rate in one second. :param name: one of the constants above."""
        return max((rate for _, rate in self._rates[name]), default=0.0)

    def curves(self) -> tuple[Curves, Curves]:
        """Return the rates, and the CPU time of the parts."""
        return (
            Curves(title="Load of the servers", x="s", y="1/s", lines=dict(self._rates)),
            Curves(title="CPU time", x="s", y="CPUs", lines=dict(self._cpu)),
        )

    def _run(self) -> None:
        began, before, last = time.monotonic(), self._counts(), cpu_of_parts(self._fleet)
        then = began
        while not self._ended.wait(INTERVAL):
            now, counts, used = time.monotonic(), self._counts(), cpu_of_parts(self._fleet)
            for name, number in counts.items():
                if number is not None and (old := before[name]) is not None:
                    self._rates[name].append((now - began, (number - old) / (now - then)))
            for name, seconds in used.items():
                rate = max(0.0, seconds - last.get(name, 0.0)) / (now - then)
                self._cpu[name].append((now - began, rate))
            then, before, last = now, counts, used

    def _counts(self) -> Mapping[str, int | None]:
        """Return the counters of the servers; None: that server does not answer."""
        fleet = self._fleet
        return {
            REQUESTS: fleet.placement.number_of_requests(),
            TRANSACTIONS: fleet.postgresql.transactions_now(fleet.places.database),
        }
