"""Starting with much in the store, and what it weighs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import psutil

from benchmarks import agents
from benchmarks.bench import CONTEXT, Bench, calls_per_second, instance
from benchmarks.figure import Figure
from rtagent.clock import SystemClock
from rtagent.db.engine import open_engine
from rtagent.db.store import SqlStore
from rtagent.kernel import restored
from rtagent.tracker import ResourceTracker
from tests.servers.daemon import Daemon

MANY = 10_000


def many(bench: Bench) -> Iterator[Figure]:
    """start_10000_claims: from the moment before the database is opened to READY, with 10,000 live
    claims whose domains are there."""
    made = agents.daemon(bench, bench.directory(), domains=MANY)
    made.start().wait_ready(300)
    made.terminate()
    _fill(made)
    made.log.unlink()
    made.start().wait_ready(300)
    ready = datetime.now()
    value = (ready - _connected(made)).total_seconds()
    claims = made.read("nodes")["nodes"][0]["claims"]
    assert claims == MANY, f"{claims} claims after the start"
    made.terminate()
    yield Figure(name="start_10000_claims", value=value, unit="s", target=5)


def _connected(made: Daemon) -> datetime:
    """When it knew its hypervisor: the database comes next."""
    return datetime.fromisoformat(made.wait_logged("connected to")[:23])


def _fill(made: Daemon) -> None:
    """Claims for every domain, written by a tracker of this process on the daemon's database."""
    engine = open_engine(f"sqlite:///{made.directory}/rtagent.sqlite", 5.0)
    store = SqlStore(engine)
    stored = store.load((made.directory / "compute_id").read_text().strip())
    tracker = ResourceTracker(store, SystemClock(), restored(stored, agents.POLICY))
    for number in range(MANY):
        agents.activated(tracker, number)
    engine.dispose()


def weight(bench: Bench) -> Iterator[Figure]:
    """rss_1000_claims: resident memory of rtagentd with 1,000 claims made over the bus."""
    made = agents.daemon(bench, bench.directory()).start().wait_ready()
    api = agents.client(bench)
    calls_per_second(lambda: api.instance_claim(CONTEXT, instance()), 10, 100)
    resident = psutil.Process(made.pid).memory_info().rss
    yield Figure(name="rss_1000_claims", value=resident / 2**20, unit="MiB", target=170)
    made.terminate()
