"""Allocations that the agent writes to Placement."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from statistics import median
from typing import Any

import msgspec
from msgspec.structs import replace

from benchmarks import agents
from benchmarks.bench import CONTEXT, Bench, instance, seconds_each
from benchmarks.figure import Figure
from rtagent.claims import instance_claim
from rtagent.embedded import EmbeddedNode, SystemClock
from rtagent.model.policy import ManageAllocations, PlacementPolicy
from rtagent.placement import tree
from rtagent.placement.allocation_outbox import AllocationOutbox, OutboxSource
from rtagent.placement.client import HttpPlacement
from rtagent.placement.outbox_groups import BATCH
from rtagent.rpc.client import AgentAPI
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.virt.simulate import Machine
from tests.servers.daemon import Daemon, wait_until
from tests.support.hosts import TOPOLOGY

#: What the drain has to reach, in allocations/s, unless Placement itself is slower.
WANTED_RATE = 150.0
#: How many turns the two daemons take, or a daemon that does something and that does not.
TURNS = 6
#: A host whose round has 51 requests if it reads everything: three for each provider.
CARDS = Machine(hostname="bench-strict", gpus=16)
SPEC = [{"vendor_id": "10de", "product_id": "13f1"}]


def cost(bench: Bench) -> Iterator[Figure]:
    """claim_allocations_cost: p50 of a claim whose allocation the agent writes, against a claim
    whose allocation it does not write, in turns of one run."""
    options: dict[str, object] = {
        "auth_type": "admin_token",
        "endpoint": bench.placement.url,
        "token": bench.placement.token,
    }
    modes = ("no", "yes")
    daemons = {mode: _daemon(bench, mode, options) for mode in modes}
    clients = {mode: AgentAPI(bench.transport, f"bench-{mode}", timeout=60) for mode in modes}
    taken: dict[str, list[float]] = {mode: [] for mode in modes}
    for turn in range(TURNS):
        for mode in modes if turn % 2 else modes[::-1]:

            def claim(api: AgentAPI = clients[mode]) -> None:
                api.instance_claim(CONTEXT, instance())

            taken[mode] += seconds_each(claim, bench.rounds(100))
            wait_until(lambda: _outbox_rows(daemons["yes"]) == 0, 120)
    for daemon in daemons.values():
        daemon.terminate()
    value, floor = (median(taken[mode]) * 1000 for mode in ("yes", "no"))
    yield Figure(name="claim_allocations_cost", value=value, unit="ms", floor=floor, target=1.1)


def strict(bench: Bench) -> Iterator[Figure]:
    """strict_claim_beside_rounds: p50 of a claim with ``strict`` while the agent reads all its
    providers again and again, against one while it does not, in turns of one run."""
    options: dict[str, object] = {
        "auth_type": "admin_token",
        "endpoint": bench.placement.url,
        "token": bench.placement.token,
        "manage_allocations": "strict",
    }
    pci: dict[str, object] = {"device_spec": json.dumps(SPEC), "report_in_placement": True}
    host: dict[str, object] = {"host": "bench-strict"}
    daemon = agents.daemon(
        bench, bench.directory(), machine=CARDS, DEFAULT=host, placement=options, pci=pci
    )
    daemon.start().wait_ready()
    api = AgentAPI(bench.transport, "bench-strict", timeout=60)
    api.sync_placement(CONTEXT)

    def claim() -> None:
        api.instance_claim(CONTEXT, instance())

    def sync() -> None:
        while not ended.is_set():
            api.sync_placement(CONTEXT)

    quiet: list[float] = []
    beside: list[float] = []
    for _ in range(TURNS):
        quiet += seconds_each(claim, bench.rounds(50))
        ended = threading.Event()
        syncs = threading.Thread(target=sync)
        syncs.start()
        beside += seconds_each(claim, bench.rounds(50))
        ended.set()
        syncs.join()
    daemon.terminate()
    value, floor = (median(each) * 1000 for each in (beside, quiet))
    yield Figure(name="strict_claim_beside_rounds", value=value, unit="ms", floor=floor, target=3.0)


def drain(bench: Bench) -> Iterator[Figure]:
    """allocation_drain: allocations written for each second of a backlog. The floor is Placement's
    own rate for the same allocations, or the rate that is wanted if that is lower."""
    node = agents.node(bench.directory(), FakeHypervisor(TOPOLOGY))
    node.auditor.run("start")
    placement = PlacementPolicy(manage_allocations=ManageAllocations.YES)
    node.tracker.set_policy(replace(node.state.policy, placement=placement))
    api = HttpPlacement(bench.placement.client())
    _publish(api, node)
    outbox = _outbox(api, node)
    outbox.turn()  # compares
    number = bench.rounds(500)
    rates, limits = [], []
    for _ in range(3):
        limits.append(_limit(api, node, number))
        for _ in range(number):
            node.tracker.create(instance_claim, *agents.build(memory_mb=1))
        began = time.perf_counter()
        while outbox.unwritten():
            outbox.turn()
        rates.append(number / (time.perf_counter() - began))
    node.close()
    yield Figure(
        name="allocation_drain",
        value=median(rates),
        unit="allocations/s",
        floor=min(WANTED_RATE, median(limits)),
        target=0.9,
        at_least=True,
    )


def _daemon(bench: Bench, mode: str, options: Mapping[str, object]) -> Daemon:
    host: dict[str, object] = {"host": f"bench-{mode}"}
    machine = replace(agents.MACHINE, hostname=f"bench-{mode}")
    made = agents.daemon(
        bench,
        bench.directory(),
        machine=machine,
        DEFAULT=host,
        placement={**options, "manage_allocations": mode},
    )
    return made.start().wait_ready()


def _outbox_rows(daemon: Daemon) -> int:
    path = daemon.directory / "rtagent.sqlite"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        found: int = database.execute("SELECT COUNT(*) FROM allocation_outbox").fetchone()[0]
    return found


def _publish(api: HttpPlacement, node: EmbeddedNode) -> None:
    """Create the provider with its inventories, as the mirror does."""
    wanted = tree.build(node.state, disabled=False, hypervisor_up=True)
    assert wanted is not None
    root = wanted.providers[0]
    generation = api.create_provider(root.uuid, f"bench-{root.uuid}")["generation"]
    api.put_inventories(root.uuid, generation, msgspec.to_builtins(root.inventories))


def _outbox(api: HttpPlacement, node: EmbeddedNode) -> AllocationOutbox:
    tracker = node.tracker
    source = OutboxSource(
        state=tracker.snapshot,
        ready=lambda: True,
        owns=lambda uuid: False,
        enqueue=tracker.unwritten.add,
        remove=tracker.unwritten.remove,
    )
    outbox = AllocationOutbox(api, source, SystemClock())
    tracker.listen(outbox.listener)
    return outbox


def _limit(api: HttpPlacement, node: EmbeddedNode, number: int) -> float:
    """Return how many such allocations Placement writes for each second, without an agent."""
    part = {node.state.node.uuid: {"resources": {"VCPU": 1, "MEMORY_MB": 1}}}
    content: dict[str, Any] = {
        "allocations": part,
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
        "project_id": "bench",
        "user_id": "bench",
    }
    began = time.perf_counter()
    for start in range(0, number, BATCH):
        consumers = range(start, min(start + BATCH, number))
        api.post_consumers({str(uuid.uuid4()): content for _ in consumers})
    return number / (time.perf_counter() - began)
