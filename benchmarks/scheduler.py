"""Selections in one process: a scheduler over a fleet of 1,000 hosts, without RPC and Placement."""

from __future__ import annotations

import gc
import time
import uuid
from collections.abc import Callable, Iterator
from statistics import median

from benchmarks import numa
from benchmarks.bench import Bench
from benchmarks.figure import Figure
from benchmarks.scheduler_fleet import FIT_FILTERS, Fleet, scheduler, view
from rtagent.conf.scheduler import DEFAULT_FILTERS
from rtagent.model.request import Flavor
from rtagent.model.server import RequestSpec
from rtagent.scheduler.host_manager import HostManager
from rtagent.scheduler.select import Scheduler

HOSTS = 1000
#: The hosts that change between two requests.
CHANGED = 10

PLAIN = RequestSpec(flavor=Flavor(vcpus=2, memory_mb=1024, root_gb=10))


def pinned(memory_mb: int = 1024) -> RequestSpec:
    """Return a request of a guest with a host CPU for each vCPU, 2 MiB pages and a virtual
    function. Each size is a request of its own, on which no verdict is known.
    """
    specs = {
        "hw:cpu_policy": "dedicated",
        "hw:mem_page_size": "2MB",
        "pci_passthrough:alias": "vf:1",
    }
    flavor = Flavor(vcpus=2, memory_mb=memory_mb, root_gb=10, extra_specs=specs)
    return RequestSpec(flavor=flavor)


def measure(bench: Bench) -> Iterator[Figure]:
    """schedule_1000: one request of one plain instance over 1,000 hosts; the floor is one pass over
    1,000 tuples with three comparisons of integers, and one sort by a float. schedule_1000_ten:
    ten instances in one request, against one. schedule_1000_numa_pci: a pinned instance with 2 MiB
    pages and a virtual function, on no host of which a verdict is known; the floor is 1,000 times
    numa_fit_p50. schedule_1000_numa_pci_again: the same after ten hosts changed, against
    schedule_1000. All of them are CPU time."""
    fleet, hosts = Fleet(HOSTS), view()
    fleet.reported(hosts)
    plain, fitting = scheduler(hosts, DEFAULT_FILTERS), scheduler(hosts, FIT_FILTERS)
    gc.freeze()  # as a daemon that runs for long: the hosts are not what a request allocates
    rounds = bench.rounds(100)
    one = _median_ms(lambda: _select(plain, PLAIN, 1), rounds)
    yield _figure("schedule_1000", one, _floor(hosts, rounds), 30)
    ten = _median_ms(lambda: _select(plain, PLAIN, 10), rounds)
    yield _figure("schedule_1000_ten", ten, one, 3)
    sizes = iter(range(64, 2048, 2))
    first = _median_ms(lambda: _select(fitting, pinned(next(sizes)), 1), bench.rounds(10))
    floor = next(numa.measure(bench)).value * HOSTS
    yield _figure("schedule_1000_numa_pci", first, floor, 1.5)
    again = _again(fleet, hosts, fitting, bench.rounds(50))
    yield _figure("schedule_1000_numa_pci_again", again, one, 3)
    gc.unfreeze()


def _figure(name: str, value: float, floor: float, target: float) -> Figure:
    return Figure(name=name, value=value, unit="ms", floor=floor, target=target)


def _select(made: Scheduler, spec: RequestSpec, number: int) -> Callable[[], None]:
    """Select, and return what undoes it."""
    uuids = [str(uuid.uuid4()) for _ in range(number)]
    found = made.select_destinations(spec, uuids)

    def undo() -> None:
        for each in found:
            made.forget_claim(each.selected.operation_id)

    return undo


def _again(fleet: Fleet, hosts: HostManager, made: Scheduler, rounds: int) -> float:
    """Return the time of an equal request after some hosts reported again."""
    spec, taken = pinned(), []
    _select(made, spec, 1)()
    for turn in range(rounds):
        for place in range(CHANGED):
            name = fleet.names[(turn * CHANGED + place) % HOSTS]
            hosts.update_host_state(fleet.report(name, revision=2 + turn))
        began = time.thread_time()
        undo = _select(made, spec, 1)
        taken.append(time.thread_time() - began)
        undo()
    return median(taken) * 1000


def _floor(hosts: HostManager, rounds: int) -> float:
    rows = [
        (each.capacity.free_vcpus, each.free_ram_mb, each.free_disk_mb, float(each.free_ram_mb))
        for each in hosts.get_all_host_states()
    ]

    def search() -> None:
        fitting = [row for row in rows if row[0] >= 2 and row[1] >= 1024 and row[2] >= 10240]
        fitting.sort(key=lambda row: row[3], reverse=True)
        assert len(fitting) == HOSTS

    def nothing() -> None:
        """Nothing is to be undone."""

    def floor() -> Callable[[], None]:
        search()
        return nothing

    return _median_ms(floor, rounds)


def _median_ms(call: Callable[[], Callable[[], None]], rounds: int) -> float:
    """Return the median CPU time of the calls, without that of undoing what they did."""
    taken = []
    for _ in range(rounds):
        began = time.thread_time()
        undo = call()
        taken.append(time.thread_time() - began)
        undo()
    return median(taken) * 1000
