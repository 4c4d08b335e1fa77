"""Outages: a server goes away for some time, and everything has to converge afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.fleet.boot import PATIENCE, repetitions, wait_settled
from benchmarks.fleet.counts import Meter
from benchmarks.fleet.fleet import Fleet
from benchmarks.fleet.looks import Looks
from benchmarks.fleet.measured import Phase, Value
from benchmarks.fleet.progress import Progress
from benchmarks.fleet.sampler import REQUESTS, TRANSACTIONS, Sampler
from tests.servers.server import Server


def outages(fleet: Fleet, meter: Meter, seconds: float, progress: Progress) -> Iterator[Phase]:
    """Stop the broker, the database and Placement, one after the other.

    :param seconds: the least time without Placement. Each server is away at least while the hosts
        change.
    """
    yield _outage(fleet, meter, fleet.rabbitmq, 0, progress, _all_report)
    yield _outage(fleet, meter, fleet.postgresql, 0, progress, _all_beat)
    yield _outage(fleet, meter, fleet.placement, seconds, progress, _all_report)
    fleet.change()  # the domains that the last outage has left


def _outage(
    fleet: Fleet,
    meter: Meter,
    server: Server,
    seconds: float,
    progress: Progress,
    back: Callable[[Fleet, float], int],
) -> Phase:
    """:param back: returns how many hosts have not worked with it since that time."""
    meter.read()
    with Sampler(fleet) as sampler:
        server.stop()
        stopped = time.monotonic()
        progress.show(f"changes without {server.name}", 0, 1)
        fleet.change()
        passed = time.monotonic() - stopped
        progress.wait(f"without {server.name}", max(0.0, seconds - passed))
        server.start()
        began, hosts, looks = time.monotonic(), len(fleet.names), Looks(PATIENCE)
        while late := looks.take(partial(back, fleet, began)):
            progress.show(f"hosts that have {server.name} again", hosts - late, hosts)
            looks.rest(f"{late} hosts do not use {server.name} again")
        wait_settled(fleet, progress)
        settled = time.monotonic() - began
    counts = meter.read()
    return Phase(
        name=f"{server.name} restarts" if not seconds else f"{server.name} is away",
        what="while it is away, a domain without a claim appears on each host, or vanishes",
        values=(
            Value(name="until it was back", value=began - stopped, unit="s"),
            Value(name="until all have converged", value=settled, unit="s"),
            Value(name="peak of requests to Placement", value=sampler.peak(REQUESTS), unit="1/s"),
            Value(name="peak of transactions", value=sampler.peak(TRANSACTIONS), unit="1/s"),
            Value(
                name="most repetitions of a request to Placement",
                value=repetitions(counts.requests),
                unit="times",
                target=3,
            ),
            *(
                Value(name=f"CPU time of {part}", value=used / hosts * 1000, unit="ms/host")
                for part, used in counts.cpu.items()
            ),
        ),
        curves=sampler.curves(),
    )


def _all_report(fleet: Fleet, began: float) -> int:
    """Return how many hosts some scheduler has no report of since that time."""
    since = time.monotonic() - began
    ages = [fleet.known(scheduler) for scheduler in fleet.schedulers]
    return max(
        sum(known.get(name, {}).get("age", since) >= since for name in fleet.names)
        for known in ages
    )


def _all_beat(fleet: Fleet, _: float) -> int:
    """Return how many hosts have no heartbeat since the database has started."""
    started = "timezone('UTC', pg_postmaster_start_time())"
    query = f"SELECT count(*) FROM services WHERE last_seen_up > {started}"
    return len(fleet.names) - int(fleet.postgresql.rows(fleet.places.database, query)[0][0])
