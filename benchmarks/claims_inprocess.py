"""Claims in one process: the tracker and its store, without RPC."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import median
from unittest.mock import patch

from benchmarks import agents
from benchmarks.bench import Bench, calls_per_second
from benchmarks.figure import Figure
from rtagent.db import commit
from rtagent.db.checked_rows import CheckedColumns
from rtagent.embedded import EmbeddedNode
from rtagent.identity.enrollment import Claimant
from rtagent.identity.node_identity import GivenNodeIdentity
from rtagent.model.node import Node, Writer
from rtagent.virt.fake import FakeHypervisor


def measure(bench: Bench) -> Iterator[Figure]:
    """claim_inprocess_16: durable claims per second from 16 threads, SQLite, synchronous=FULL."""
    node = agents.node(bench.directory(), FakeHypervisor())
    node.auditor.run("start")

    def claim() -> None:
        node.tracker.instance_claim(*agents.build())

    calls_per_second(claim, 16, 10)
    value = max(calls_per_second(claim, 16, bench.rounds(500)) for _ in range(3))
    node.close()
    yield Figure(
        name="claim_inprocess_16", value=value, unit="claims/s", target=2000, at_least=True
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
    return calls_per_second(lambda: node.tracker.instance_claim(*agents.build()), 16, 10)


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
