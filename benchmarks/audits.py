"""Audits of 1,000 domains on libvirt's test driver."""

from __future__ import annotations

import gc
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks import agents
from benchmarks.bench import Bench, percentile
from benchmarks.figure import Figure
from rtagent.audit import Auditor
from rtagent.claims import instance_claim, release_claim
from rtagent.embedded import SystemClock
from rtagent.model.change import Call
from rtagent.ports import NullReporter
from rtagent.service.process import YOUNG
from rtagent.tracker import ResourceTracker
from rtagent.virt.libvirt.hypervisor import LibvirtHypervisor
from rtagent.virt.simulate import host_uri

DOMAINS, MANY = 1000, 10_000
CLAIMS = 500


class LockTimes(NullReporter):
    """Adds up the seconds for which the lock was held."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, name: str, purpose: str, seconds: float) -> None:
        if name == "lock_hold":
            self.seconds += seconds


def idle(bench: Bench) -> Iterator[Figure]:
    """audit_idle_1000_cpu: CPU time of one idle audit, which reads a tenth of the domains again.
    audit_idle_1000_lock: the time for which it holds the lock."""
    cpu, held = _idle_audits(bench, DOMAINS)
    yield Figure(name="audit_idle_1000_cpu", value=cpu, unit="ms", target=25)
    yield Figure(name="audit_idle_1000_lock", value=held, unit="ms", target=1)


def idle_many(bench: Bench) -> Iterator[Figure]:
    """audit_idle_10000_cpu: the same of 10,000 domains; the floor is that of 1,000."""
    (few, _), (many, _) = _idle_audits(bench, DOMAINS), _idle_audits(bench, MANY)
    yield Figure(name="audit_idle_10000_cpu", value=many, floor=few, unit="ms", target=10)


def _idle_audits(bench: Bench, domains: int) -> tuple[float, float]:
    """Return the median CPU time of idle audits of domains that have a claim each, and the longest
    time for which one held the lock, in ms.
    """
    directory, holds = bench.directory(), LockTimes()
    agents.filled(directory, domains)
    hypervisor = _hypervisor(directory, domains)
    node = agents.node(directory, hypervisor, holds)
    for _ in range(3):
        node.auditor.run("warm-up")
    revision = node.state.revision
    cpu, held = [], []
    with _frozen():
        for _ in range(max(5, bench.rounds(50) * DOMAINS // domains)):
            holds.seconds, began = 0.0, time.process_time()
            node.auditor.run("idle")
            cpu.append(time.process_time() - began)
            held.append(holds.seconds)
    assert node.state.revision == revision, "an idle audit wrote something"
    node.close()
    hypervisor.stop()
    return median(cpu) * 1000, max(held) * 1000


@contextmanager
def _frozen() -> Iterator[None]:
    """Collect garbage as a daemon does that is READY."""
    before = gc.get_threshold()
    gc.set_threshold(YOUNG)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*before)


def contention(bench: Bench) -> Iterator[Figure]:
    """audit_contention_p99: the p99 of claims made during whole cold audits (all XML read) of
    1,000 domains and 500 claims, against the p99 of claims made while nothing else runs."""
    directory = bench.directory()
    first = _hypervisor(directory)
    node = agents.node(directory, first)
    node.auditor.run("warm-up")
    first.stop()
    tracker = node.tracker
    for number in range(CLAIMS):
        agents.activated(tracker, number)
    calm = [_claim(tracker) for _ in range(bench.rounds(2000))]
    busy: list[float] = []
    for _ in range(bench.rounds(10)):
        busy += _during_a_cold_audit(tracker, _hypervisor(directory))
    node.close()
    yield Figure(
        name="audit_contention_p99",
        value=percentile(busy, 0.99) * 1000,
        unit="ms",
        floor=percentile(calm, 0.99) * 1000,
        target=3,
    )


def _during_a_cold_audit(tracker: ResourceTracker, fresh: LibvirtHypervisor) -> list[float]:
    fresh.identity()  # the host's own documents
    auditor = Auditor(tracker, fresh, SystemClock())
    thread = threading.Thread(target=auditor.run, args=("cold",))
    thread.start()
    taken = []
    while thread.is_alive():
        taken.append(_claim(tracker))
    thread.join()
    fresh.stop()
    return taken


def _claim(tracker: ResourceTracker) -> float:
    call, request = agents.build()
    began = time.perf_counter()
    tracker.create(instance_claim, call, request)
    taken = time.perf_counter() - began
    end = Call(method="release_claim", operation_id=str(uuid.uuid4()), digest="x")
    tracker.execute(release_claim, end, call.operation_id)
    return taken


def _hypervisor(directory: Path, domains: int = DOMAINS) -> LibvirtHypervisor:
    file = directory / "host.xml"
    if not file.exists():
        agents.host_file(directory, domains)
    return agents.connected(LibvirtHypervisor(host_uri(file), str(directory)))
