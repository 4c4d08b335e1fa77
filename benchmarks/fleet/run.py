"""Run: the chosen phases, one after the other, on one fleet."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from benchmarks.fleet.boot import boot, wait_settled
from benchmarks.fleet.census import Placed, differences
from benchmarks.fleet.counts import Meter
from benchmarks.fleet.day import day
from benchmarks.fleet.fleet import Fleet, wait_schedulers
from benchmarks.fleet.growth import growth, sizes
from benchmarks.fleet.host import Intervals
from benchmarks.fleet.idle import idle, without_agents
from benchmarks.fleet.measured import Measurements, Phase, Value
from benchmarks.fleet.outages import outages
from benchmarks.fleet.progress import Progress
from rtagent.conf.scheduler import SchedulerOptions

BOOT, IDLE, DAY, OUTAGES = "boot", "idle", "day", "outages"
#: The phases of one fleet, in their order. The first one is always made: without it, there are no
#: agents.
PHASES = (BOOT, IDLE, DAY, OUTAGES)

#: Seconds after which a scheduler no longer counts a claim of which no agent's message has shown
#: that it was granted, or that it has ended.
ASSUME_TIMEOUT = SchedulerOptions().assume_timeout


class Options(Struct, frozen=True, kw_only=True):
    """:ivar hosts: of the fleet. :ivar at_once: see `Fleet.start`.
    :ivar alone: seconds without agents, before the idle phase.
    :ivar idle: seconds of that. :ivar day: the most seconds of the day.
    :ivar outage: the least seconds without Placement.
    :ivar phases: some of `PHASES`. :ivar intervals: of the agents.
    """

    hosts: int
    at_once: int
    alone: float
    idle: float
    day: float
    outage: float
    phases: Collection[str]
    intervals: Intervals = Intervals()


class Run:
    """:ivar measured: so far. :ivar wrong: what the census found, in sentences."""

    def __init__(
        self, options: Options, progress: Progress, added: Callable[[], None] = lambda: None
    ) -> None:
        """:param added: called after each phase."""
        self._options, self._progress, self._added = options, progress, added
        self.measured = Measurements(hosts=options.hosts, machine=machine(), phases=[])
        self.wrong: list[str] = []

    def make(self) -> None:
        """Make the fleet, and the phases."""
        parent = Path(__file__).parent
        with (
            tempfile.TemporaryDirectory(prefix=".fleet-", dir=parent) as directory,
            Fleet(Path(directory), self._options.hosts, self._options.intervals) as fleet,
        ):
            wait_schedulers(fleet.schedulers)
            meter = Meter(fleet)
            alone = None
            if IDLE in self._options.phases:
                alone = without_agents(meter, self._options.alone, self._progress)
            self._progress.show("configurations", 0, 1)
            fleet.prepare()
            meter.read()
            self._add(boot(fleet, meter, self._options.at_once, self._progress))
            if alone is not None:
                self._add(idle(fleet, meter, alone, self._options.idle, self._progress))
            self._work(fleet, meter)

    def _work(self, fleet: Fleet, meter: Meter) -> None:
        """Make the phases in which something happens, with a census after each."""
        options, progress = self._options, self._progress
        servers: Mapping[str, Placed] = {}
        if DAY in options.phases:
            phase, servers = day(fleet, meter, options.day, progress)
            self._add(phase)
            progress.wait("assumed claims", ASSUME_TIMEOUT)
        self._add(self._census(fleet, servers))
        if OUTAGES in options.phases:
            for phase in outages(fleet, meter, options.outage, progress):
                self._add(phase)
            self._add(self._census(fleet, servers))

    def _add(self, phase: Phase) -> None:
        self.measured.phases.append(phase)
        self._added()

    def _census(self, fleet: Fleet, servers: Mapping[str, Placed]) -> Phase:
        """Compare all accounts, when everything has caught up."""
        wait_settled(fleet, self._progress)
        found = differences(fleet, servers)
        self.wrong += found
        return Phase(
            name="census",
            what="the accounts of database, hypervisors, Placement and schedulers against"
            " the answers that callers got, host by host",
            values=(
                Value(name="servers", value=len(servers), unit="servers"),
                Value(name="differences", value=len(found), unit="differences", target=0.0),
            ),
        )


def grow(options: Options, progress: Progress) -> tuple[Phase, list[str]]:
    """Run fleets of growing sizes, with the phases that compare. Return what differs, too."""
    runs = [
        Run(replace(options, hosts=hosts, phases=(BOOT, IDLE, DAY)), progress)
        for hosts in sizes(options.hosts)
    ]
    for run in runs:
        run.make()
    wrong = [sentence for run in runs for sentence in run.wrong]
    return growth([run.measured for run in runs]), wrong


def machine() -> str:
    """Return what this is measured on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} CPUs, {memory:.0f} GiB, Python {platform.python_version()}"
