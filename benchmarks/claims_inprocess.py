"""Claims in one process: the tracker and its store, without RPC."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from unittest.mock import patch

from benchmarks import agents
from benchmarks.bench import Bench, calls_per_second
from benchmarks.figure import Figure
from benchmarks.recorded import Recorded
from rtagent.claims import instance_claim
from rtagent.db import commit
from rtagent.db.checked_rows import CheckedColumns
from rtagent.embedded import EmbeddedNode
from rtagent.identity.enrollment import Claimant
from rtagent.identity.node_identity import GivenNodeIdentity
from rtagent.model.node import Node, Writer
from rtagent.testing.hypervisor import FakeHypervisor

CALLERS = 16


def measure(bench: Bench) -> Iterator[Figure]:
    """claim_inprocess_1: durable claims per second of one caller, SQLite, synchronous=FULL; the
    floor is the rate of the same rows, written by the driver alone.
    claim_inprocess_16: the same from 16 threads; the floor writes the rows in the same
    transactions, each of which has those of several claims.
    claim_inprocess_shared: the rate from 16 threads against that of one caller."""
    directory = bench.directory()
    node = agents.node(directory, FakeHypervisor())
    node.auditor.run("start")

    def rate(callers: int) -> float:
        claim = partial(_claim, node)
        return calls_per_second(claim, callers, bench.rounds(800) // callers)

    def floor(callers: int) -> float:
        before = node.state.revision
        recorded = Recorded(bench, directory / "rtagent.sqlite", lambda: rate(callers))
        return (node.state.revision - before) / recorded.seconds()

    rate(CALLERS)
    turns = [{callers: (rate(callers), floor(callers)) for callers in (1, CALLERS)} for _ in "123"]
    node.close()
    for name, callers, target in (
        ("claim_inprocess_1", 1, 0.5),
        ("claim_inprocess_16", CALLERS, 0.2),
    ):
        yield _median(name, [turn[callers] for turn in turns], target)
    shared = [(turn[CALLERS][0], turn[1][0]) for turn in turns]
    yield _median("claim_inprocess_shared", shared, 4)


def _median(name: str, turns: Sequence[tuple[float, float]], target: float) -> Figure:
    """Return the turn with the median ratio, of turns with a rate and a floor each."""
    value, floor = sorted(turns, key=lambda turn: turn[0] / turn[1])[len(turns) // 2]
    return Figure(
        name=name, value=value, floor=floor, unit="claims/s", target=target, at_least=True
    )


def mark_cost(bench: Bench) -> Iterator[Figure]:
    """claim_mark_cost: the rate of claim_inprocess_16 with the high-water mark, against the rate
    without it. Short turns follow each other and are compared in pairs, because the load of the
    machine changes from second to second."""
    hypervisor = FakeHypervisor()
    marked = agents.node(bench.directory(), hypervisor)
    unmarked = agents.node(bench.directory(), hypervisor, identity=_without_mark(hypervisor))
    for node in (marked, unmarked):
        node.auditor.run("start")
        _claims_per_second(node)
    yield _compared(
        bench,
        "claim_mark_cost",
        lambda: _claims_per_second(marked),
        lambda: _claims_per_second(unmarked),
    )
    marked.close()
    unmarked.close()


def digest_cost(bench: Bench) -> Iterator[Figure]:
    """claim_digest_cost: the rate of claim_inprocess_16 with digests of rows, against the rate
    without them, in pairs of short turns."""
    node = agents.node(bench.directory(), FakeHypervisor())
    node.auditor.run("start")
    _claims_per_second(node)

    def without() -> float:
        with (
            patch.object(CheckedColumns, "digest", lambda *_: 0),
            patch.object(commit, "roster", lambda _: 0),
        ):
            return _claims_per_second(node)

    yield _compared(bench, "claim_digest_cost", lambda: _claims_per_second(node), without)
    node.close()


def _compared(
    bench: Bench, name: str, measured: Callable[[], float], baseline: Callable[[], float]
) -> Figure:
    """Return the median of the first rate, with the second one as floor."""
    rates, ratios = [], []
    for turn in range(bench.rounds(100)):
        order = (measured, baseline) if turn % 2 else (baseline, measured)
        rate = {run: run() for run in order}
        rates.append(rate[baseline])
        ratios.append(rate[measured] / rate[baseline])
    floor = median(rates)
    return Figure(
        name=name,
        value=floor * median(ratios),
        floor=floor,
        unit="claims/s",
        target=0.97,
        at_least=True,
    )


def _claims_per_second(node: EmbeddedNode) -> float:
    return calls_per_second(partial(_claim, node), CALLERS, 10)


def _claim(node: EmbeddedNode) -> None:
    node.tracker.create(instance_claim, *agents.build())


def _without_mark(hypervisor: FakeHypervisor) -> GivenNodeIdentity:
    """The identity of a node of which nothing is remembered outside of the database."""
    claimant = Claimant(
        node=Node(
            uuid=agents.owner(0), host="bench", hypervisor_hostname=hypervisor.identity().hostname
        ),
        writer=Writer(machine_id="bench", boot_id="bench", state_path="bench"),
        compute_id="compute_id",
        service_down_time=60,
    )
    return GivenNodeIdentity(claimant)
