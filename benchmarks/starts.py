"""The start with many claims in the store, and the memory of the daemon."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import psutil

from benchmarks import agents
from benchmarks.bench import CONTEXT, Bench, calls_per_second, instance
from benchmarks.figure import Figure
from tests.servers.daemon import Daemon

MANY = 10_000


def many(bench: Bench) -> Iterator[Figure]:
    """start_10000_claims: from just before the database is opened to READY, with 10,000 live claims
    whose domains run."""
    made = agents.daemon(bench, bench.directory(), domains=MANY)
    agents.filled(made.directory, MANY)
    made.start().wait_ready(300)  # its audit activates the claims
    made.terminate()
    made.log.unlink()
    made.start().wait_ready(300)
    ready = datetime.now()
    value = (ready - _connected(made)).total_seconds()
    claims = made.read("nodes")["nodes"][0]["claims"]
    assert claims == MANY, f"{claims} claims after the start"
    made.terminate()
    yield Figure(name="start_10000_claims", value=value, unit="s", target=3)


def _connected(made: Daemon) -> datetime:
    """Return the time at which the hypervisor was connected; the database is opened next."""
    return datetime.fromisoformat(made.wait_logged("connected to")[:23])


def memory(bench: Bench) -> Iterator[Figure]:
    """rss_1000_claims: the resident memory of rtagentd after 1,000 claims over RPC, at any start
    but the first one, which also loads what makes the schema."""
    made = agents.daemon(bench, bench.directory()).start().wait_ready()
    made.terminate()
    made.start().wait_ready()
    api = agents.client(bench)
    calls_per_second(lambda: api.instance_claim(CONTEXT, instance()), 10, 100)
    resident = psutil.Process(made.pid).memory_info().rss
    yield Figure(name="rss_1000_claims", value=resident / 2**20, unit="MiB", target=110)
    made.terminate()
