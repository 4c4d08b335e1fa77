"""Claims over RabbitMQ while the agent has everything else to do, too."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from benchmarks import agents
from benchmarks.bench import CONTEXT, Bench, instance, percentile
from benchmarks.figure import Figure
from tests.servers.daemon import Daemon
from tests.servers.server import free_port

#: The guests of the host.
GUESTS = 200
#: The readers of the read API. Each reads a document a second, one after the other of these.
READERS, PERIOD = 16, 1.0
PATHS = ("claims", "nodes", "numa", "pci", "drift")
#: How many times each agent is measured, and with how many claims.
TURNS, CLAIMS, WARM_UP = 6, 250, 20


def measure(bench: Bench) -> Iterator[Figure]:
    """claim_busy_p99: the p99 of claims while 16 readers read the API, one audit follows the other,
    Placement is away, and the host is reported each second, against their p99 on an idle agent with
    as many guests. Both publish their events. The agents take turns."""
    calm = _daemon(bench, "calm")
    busy = _daemon(
        bench,
        "busy",
        DEFAULT={"report_interval": 1},
        placement={
            "auth_type": "admin_token",
            "endpoint": f"http://127.0.0.1:{free_port()}",
            "token": "none",
        },
    )
    taken: tuple[list[float], list[float]] = ([], [])
    for each in (calm, busy):
        _claims(bench, each, WARM_UP)
    for _ in range(bench.rounds(TURNS)):
        taken[0].extend(_claims(bench, calm, CLAIMS))
        with _everything(bench, busy):
            taken[1].extend(_claims(bench, busy, CLAIMS))
    for each in (calm, busy):
        each.terminate()
    floor, value = (percentile(each, 0.99) * 1000 for each in taken)
    yield Figure(name="claim_busy_p99", value=value, unit="ms", floor=floor, target=3)


def _daemon(bench: Bench, host: str, **groups: dict[str, object]) -> Daemon:
    default = {"host": host, **groups.pop("DEFAULT", {})}
    made = agents.daemon(
        bench, bench.directory(), GUESTS, agents.MACHINE, DEFAULT=default, **groups
    )
    return made.start().wait_ready()


def _claims(bench: Bench, agent: Daemon, number: int) -> list[float]:
    """Return the seconds of so many claims. Their ends are not measured."""
    api = agents.client(bench, agent.host)
    taken = []
    for _ in range(number):
        began = time.perf_counter()
        claim = api.instance_claim(CONTEXT, instance())
        taken.append(time.perf_counter() - began)
        api.release_claim(CONTEXT, claim["uuid"])
    return taken


@contextmanager
def _everything(bench: Bench, agent: Daemon) -> Iterator[None]:
    """Read the API and run audits during the block."""
    ended = threading.Event()
    api = agents.client(bench, agent.host)

    def read(number: int) -> None:
        for path in itertools.islice(itertools.cycle(PATHS), number, None):
            agent.read(path)
            if ended.wait(PERIOD):
                return

    def audit() -> None:
        while not ended.is_set():
            api.update_available_resource(CONTEXT)

    with ThreadPoolExecutor(READERS + 1) as threads:
        work = [threads.submit(read, number) for number in range(READERS)]
        work.append(threads.submit(audit))
        try:
            yield
        finally:
            ended.set()
        for each in work:
            each.result()
