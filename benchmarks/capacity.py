"""The capacity of one host: the room of twenty flavors, counted in one thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from statistics import median

from msgspec.structs import replace

from benchmarks.bench import Bench
from benchmarks.figure import Figure
from rtagent import claims
from rtagent.allocation.kept_views import keep_views
from rtagent.allocation.requirements import from_request
from rtagent.capacity.count import Count
from rtagent.model.decision import Granted
from rtagent.model.device import PciDevices
from rtagent.model.node_state import NodeState
from rtagent.model.policy import NumaPolicy, PciPolicy, Policy
from rtagent.model.request import BuildRequest, Flavor
from tests.support.hosts import NODE, NOON, call, request, uid
from tests.support.numa_hosts import HUGE, LARGE, cell, topology
from tests.support.pci_hosts import gpu, record
from tests.support.random_nodes import ALIASES

GIB = 1024
PINNED = {"hw:cpu_policy": "dedicated"}
ISOLATED = {**PINNED, "hw:cpu_thread_policy": "isolate"}
SPREAD = {**PINNED, "hw:numa_nodes": "2"}
#: The extra specs of flavors, and their vCPUs. Each vCPU has 4 GB.
SIZES: tuple[tuple[dict[str, str], tuple[int, ...]], ...] = (
    ({}, (1, 2, 4, 8, 16)),
    ({"hw:numa_nodes": "1"}, (4, 8)),
    (PINNED, (2, 4, 8, 16)),
    ({**PINNED, "hw:mem_page_size": "1GB"}, (4, 8, 16)),
    (ISOLATED, (2, 4)),
    (SPREAD, (8, 16)),
    ({**PINNED, "pci_passthrough:alias": "gpu:1"}, (4, 8)),
)
FLAVORS = [
    Flavor(
        name=f"f{number}-{vcpus}", vcpus=vcpus, memory_mb=4 * GIB * vcpus, root_gb=20,
        extra_specs=specs,
    )
    for number, (specs, sizes) in enumerate(SIZES)
    for vcpus in sizes
]  # fmt: skip


def measure(bench: Bench) -> Iterator[Figure]:
    """CPU time of this thread. capacity_20: the room of 20 flavors on a host of 128 CPUs, 2 cells
    and 64 guests, counted anew. capacity_decisions: the same against the decisions alone, of the
    same claims on states that are there already. capacity_stranded: room and stranded parts."""
    assert len(FLAVORS) == 20
    host = _host()
    decisions = list(_decisions(host))
    rounds = bench.rounds(50)
    counted, decided, parts = [], [], []
    for _ in range(rounds):  # in turns, so that all run under the same conditions
        counted.append(_cpu_ms(lambda: _count(host)))
        decided.append(_cpu_ms(lambda: [decide() for decide in decisions]))
        parts.append(_cpu_ms(lambda: _count(host).stranded))
    rooms, floor = median(counted), median(decided)
    yield Figure(name="capacity_20", value=rooms, unit="ms", target=50)
    yield Figure(name="capacity_decisions", value=rooms, unit="ms", floor=floor, target=2.5)
    yield Figure(name="capacity_stranded", value=median(parts), unit="ms", target=100)


def _cpu_ms(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return (time.thread_time() - began) * 1000


def _count(host: NodeState) -> Count:
    """Count a state of which nothing is derived yet, as after a claim."""
    count = Count(replace(host), FLAVORS)
    for flavor in count.catalogue.flavors:
        count.room(flavor)
    return count


def _decisions(host: NodeState) -> Iterator[Callable[[], object]]:
    """Yield the decision of each claim that the count makes. Guests for which sums decide are
    decided once.
    """
    for flavor in FLAVORS:
        build = _build(flavor)
        required, state = from_request(build, host.policy), host
        granted = True
        while granted:
            decide = partial(claims.instance_claim, state, call(), NOON, build, required)
            yield decide
            decision = decide()
            granted = isinstance(decision, Granted) and bool(flavor.extra_specs)
            if isinstance(decision, Granted):
                state = _after(state, decision)
            build = _build(flavor)


def _build(flavor: Flavor) -> BuildRequest:
    made = request(owner=uid())
    return replace(made, instance=replace(made.instance, flavor=flavor))


def _after(state: NodeState, decision: Granted) -> NodeState:
    after = state.fold(decision.change)
    keep_views(state, after, decision.change)
    return after


def _host() -> NodeState:
    """A host with 104 dedicated CPUs, of which 16 guests have two each, and 48 plain guests."""
    pages = {LARGE: 65536, HUGE: 128}
    there = topology(*(cell(n, 32, 2, memory_mb=512 * GIB, huge=pages) for n in (0, 1)))
    shared = frozenset(cpu for one in there.cells for core in one.siblings[:6] for cpu in core)
    gpus = record([gpu(f"0000:{n:02x}:00.0", n % 2) for n in range(10, 18)])
    state = NodeState(
        node=NODE,
        policy=Policy(
            numa=NumaPolicy(cpu_shared_set=shared, cpu_dedicated_set=there.cpus - shared),
            cpu_allocation_ratio=Decimal(4),
            pci=PciPolicy(aliases=ALIASES),
        ),
        topology=replace(there, disk_mb=8 * GIB * GIB),
        devices=PciDevices(gpus),
    )
    pinned, plain = (next(each for each in FLAVORS if each.name == n) for n in ("f2-2", "f0-1"))
    for number in range(64):
        build = _build(plain if number % 4 else pinned)
        decision = claims.instance_claim(state, call(), NOON, build)
        assert isinstance(decision, Granted), decision
        state = _after(state, decision)
    return state
