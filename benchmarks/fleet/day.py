"""A day in minutes: callers build, move and delete servers at the same time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from statistics import mean

from benchmarks.bench import percentile
from benchmarks.fleet.agent_process import HostView
from benchmarks.fleet.caller import BUILD, DELETE, MOVE, STEPS, Caller
from benchmarks.fleet.census import Placed
from benchmarks.fleet.conducting import conducting
from benchmarks.fleet.counts import Meter
from benchmarks.fleet.fleet import Fleet
from benchmarks.fleet.measured import Phase, Value
from benchmarks.fleet.progress import Progress
from benchmarks.fleet.sampler import Sampler

CALLERS = 32
#: Operations for each host in ten minutes. The servers that are not deleted remain.
BUILDS, MOVES, DELETES = 20, 5, 16
MINUTES = 10.0


def day(
    fleet: Fleet, meter: Meter, seconds: float, progress: Progress
) -> tuple[Phase, Mapping[str, Placed]]:
    """Work through a day, or as much of it as the time allows. Return the servers that are left."""
    meter.read()
    began = time.monotonic()
    share = len(fleet.names) * seconds / 60 / MINUTES / CALLERS
    numbers = [max(1, round(each * share)) for each in (BUILDS, MOVES, DELETES)]
    with (
        conducting(fleet) as make,
        Sampler(fleet) as sampler,
        ThreadPoolExecutor(CALLERS) as pool,
    ):
        callers = [Caller(number, make, began + seconds) for number in range(CALLERS)]
        working = [pool.submit(caller.work, *numbers) for caller in callers]
        while not all(future.done() for future in working):
            ended = sum(caller.done.total() + caller.failed.total() for caller in callers)
            progress.show("a day: operations", ended, sum(numbers) * CALLERS)
            time.sleep(1)
        for future in working:
            future.result()
        lasted = time.monotonic() - began
    counts = meter.read()
    done = _sum(caller.done for caller in callers)
    operations = done.total()
    placed = {uuid: each for caller in callers for uuid, each in caller.placed.items()}
    phase = Phase(
        name="a day",
        what=f"{CALLERS} callers with conductors in one process work for at most {seconds:.0f} s",
        values=(
            *(Value(name=f"{kind}s", value=done[kind], unit="") for kind in (BUILD, MOVE, DELETE)),
            Value(name="rate", value=operations / lasted, unit="operations/s"),
            *_times(callers),
            Value(
                name="hosts that refused a selected claim",
                value=sum(caller.races for caller in callers),
                unit="claims",
            ),
            *(
                Value(name=f"failed: {error}", value=number, unit="operations")
                for error, number in _sum(caller.failed for caller in callers).items()
            ),
            *_fragmentation(fleet.views().values()),
            *(
                Value(name=f"CPU time of {part}", value=used / max(1, operations) * 1000, unit="ms")
                for part, used in counts.cpu.items()
            ),
            *(
                Value(name=f"{what} of an operation", value=number / max(1, operations), unit="")
                for what, number in {
                    "messages": counts.messages,
                    "SQL statements": sum(counts.statements.values()),
                    "writing transactions": counts.transactions,
                    "requests to Placement": len(counts.requests),
                }.items()
            ),
        ),
        curves=sampler.curves(),
    )
    return phase, placed


def _sum(counted: Iterable[Counter[str]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in counted:
        found.update(each)
    return found


def _times(callers: Iterable[Caller]) -> Iterable[Value]:
    found: dict[str, list[float]] = {}
    for caller in callers:
        for name, seconds in caller.seconds.items():
            found.setdefault(name, []).extend(seconds)
    for name in (*STEPS, BUILD, MOVE, DELETE):
        for percent in (50, 99):
            if taken := found.get(name):
                yield Value(
                    name=f"{name}, p{percent}",
                    value=percentile(taken, percent / 100) * 1000,
                    unit="ms",
                )


def _fragmentation(views: Iterable[HostView]) -> Iterable[Value]:
    """Yield the free dedicated CPUs of a host, and the large pages that no guest can have because
    no dedicated CPU of their cell is free.
    """
    hosts = list(views)
    free = mean(sum(view.free_pcpus.values()) for view in hosts)
    stranded = mean(
        sum(pages for cell, pages in view.free_pages.items() if not view.free_pcpus[cell])
        for view in hosts
    )
    yield Value(name="free dedicated CPUs of a host", value=free, unit="CPUs")
    yield Value(name="stranded large pages of a host", value=stranded, unit="pages")
