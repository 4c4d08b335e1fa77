"""Advice on a fleet of 1,000 hosts with 20 guests each, in one thread."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

from msgspec.structs import replace

from benchmarks.bench import Bench
from benchmarks.figure import Figure
from benchmarks.fleet_capacity import selections
from benchmarks.scheduler_fleet import Fleet, scheduler, view
from rtagent.model.claim import ACTIVE
from rtagent.model.host_report import InstanceInfo
from rtagent.model.request import Flavor
from rtagent.model.server import RequestSpec
from rtagent.service.process import YOUNG

HOSTS = 1000
#: Each cell of a host has 6 of its 16 dedicated CPUs free, and its guests have two each. The
#: numbers of CPUs for which one guest has to leave, and for which three leave too few.
ONE_MOVE, TOO_MANY = 8, 14


class _Running(Fleet):
    """A fleet whose guests run."""

    def instances(self, name: str) -> tuple[InstanceInfo, ...]:
        """Return the guests of a host, with their claims."""
        return tuple(
            replace(info, claims=tuple(replace(claim, state=ACTIVE) for claim in info.claims))
            for info in super().instances(name)
        )


def measure(bench: Bench) -> Iterator[Figure]:
    """CPU time of one request for advice, on 1,000 hosts of 20 guests. advise_1000: one move helps.
    advise_1000_nothing: nothing of up to three moves helps. advise_select_p99: p99 of the wall time
    of a selection of a plain instance beside the latter; the floor is the same without it, in
    turns."""
    hosts = view()
    _Running(HOSTS).reported(hosts)
    made = scheduler(hosts)
    parts = made.parts
    options = replace(parts.options, service_down_time=3600)  # no host reports again
    made.reconfigure(parts.filters, parts.weighers, options)
    before = gc.get_threshold()
    gc.freeze()  # as a daemon that runs for long
    gc.set_threshold(YOUNG)
    for name, vcpus in (("advise_1000", ONE_MOVE), ("advise_1000_nothing", TOO_MANY)):
        began = time.thread_time()
        advice = made.advise(_wanted(vcpus), 1)
        seconds = time.thread_time() - began
        assert (len(advice.moves), advice.cut_short) == (vcpus == ONE_MOVE, False)
        yield Figure(name=name, value=seconds, unit="s", target=10)

    def advise(stop: threading.Event) -> None:
        while not stop.is_set():
            made.advise(_wanted(TOO_MANY), 1)

    alone, beside = selections(made, bench.rounds(10), advise)
    yield Figure(name="advise_select_p99", value=beside, unit="ms", floor=alone, target=1.5)
    gc.unfreeze()
    gc.set_threshold(*before)


def _wanted(vcpus: int) -> RequestSpec:
    specs = {"hw:cpu_policy": "dedicated"}
    return RequestSpec(flavor=Flavor(vcpus=vcpus, memory_mb=1024, extra_specs=specs))
