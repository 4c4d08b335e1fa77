"""The capacity of a fleet of 1,000 hosts: the room of 20 flavors, and what selections notice."""

from __future__ import annotations

import gc
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from statistics import quantiles

from msgspec.structs import replace

from benchmarks.bench import Bench
from benchmarks.capacity import FLAVORS
from benchmarks.figure import Figure
from benchmarks.scheduler import HOSTS, PLAIN
from benchmarks.scheduler_fleet import FIT_FILTERS, Fleet, scheduler, view
from rtagent.scheduler.fleet_counts import FleetCounts, Pace
from rtagent.scheduler.select import Scheduler

#: Seconds of a count that ends by itself.
LONG = 3600.0
#: The flavors of the file. The guests have four others.
LISTED = FLAVORS[4:]


def measure(bench: Bench) -> Iterator[Figure]:
    """fleet_capacity_once: CPU time of the first count of 20 flavors, of which four are those of
    the guests, on 1,000 hosts of 20 guests; fleet_capacity_changed: of the count after one host has
    reported again. fleet_capacity_select_p99: p99 of the wall time of a selection of a plain
    instance while the fleet is counted anew; the floor is the same without a count, in turns."""
    fleet, hosts = Fleet(HOSTS), view()
    fleet.reported(hosts)
    made = scheduler(hosts, FIT_FILTERS)
    parts = made.parts  # no host reports again, and none is down
    options = replace(parts.options, service_down_time=LONG)
    made.reconfigure(parts.filters, parts.weighers, options)
    counts = FleetCounts(lambda: made.parts, lambda: LISTED)
    gc.freeze()  # as a daemon that runs for long: the hosts are not what a count allocates
    once = _cpu(lambda: counts.count(LONG))
    assert len(counts.capacity().flavors) == 20
    yield Figure(name="fleet_capacity_once", value=once, unit="s", target=15)
    changed = []
    for turn in range(bench.rounds(50)):
        hosts.update_host_state(fleet.report(fleet.names[turn % HOSTS], revision=2 + turn))
        changed.append(_cpu(lambda: counts.count(LONG)) * 1000)
    value = sorted(changed)[len(changed) // 2]
    yield Figure(name="fleet_capacity_changed", value=value, unit="ms", target=50)
    alone, beside = selections(made, bench.rounds(10), partial(_count, made))
    yield Figure(name="fleet_capacity_select_p99", value=beside, unit="ms", floor=alone, target=1.5)
    gc.unfreeze()


def _cpu(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began


def selections(
    made: Scheduler, turns: int, work: Callable[[threading.Event], None]
) -> tuple[float, float]:
    """Return p99 of the time of a selection in ms, without and beside other work.

    :param work: in a thread of its own, until the event is set.
    """
    alone, beside = list[float](), list[float]()
    for _ in range(turns):
        alone += (_select(made) for _ in range(100))
        stop = threading.Event()
        thread = threading.Thread(target=work, args=(stop,))
        thread.start()
        beside += (_select(made) for _ in range(100))
        stop.set()
        thread.join()
    return quantiles(alone, n=100)[-1], quantiles(beside, n=100)[-1]


def _count(made: Scheduler, stop: threading.Event) -> None:
    """Count the fleet anew, again and again, as the thread of a scheduler does."""
    pace = Pace(lambda: bool(made.selecting))
    counts = FleetCounts(lambda: made.parts, lambda: LISTED, pause=pace)
    while not stop.is_set():
        if counts.count(0.5):
            counts = FleetCounts(lambda: made.parts, lambda: LISTED, pause=pace)


def _select(made: Scheduler) -> float:
    """Return the time of a selection in ms. What it has assumed is forgotten again."""
    began = time.perf_counter()
    [found] = made.select_destinations(PLAIN, [str(uuid.uuid4())])
    taken = time.perf_counter() - began
    made.forget_claim(found.selected.operation_id)
    return taken * 1000
