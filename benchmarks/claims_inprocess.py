"""Claims in one process: the tracker and its store, without RPC."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import agents
from benchmarks.bench import Bench, calls_per_second
from benchmarks.figure import Figure
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
