"""Claims, ends and reads while the external services of the agent hang."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from benchmarks.bench import CONTEXT, Bench, percentile
from benchmarks.figure import Figure
from rtagent.errors import HypervisorUnavailable, NodeNotReady, RtAgentError
from rtagent.rpc.method import SLOW_CALLS
from tests.functional.outage.hung_outside import HungOutside
from tests.servers.daemon import wait_until

#: How many times the agent is measured idle, and then while the external services hang.
TURNS = 6
#: How many claims a measurement makes at most: enough for a p99, in a quick run, too.
ROUNDS = 250
WARM_UP = 20
#: The longest measurement in seconds. It is shorter than the agent takes to notice that libvirt
#: hangs, so that claims are granted.
LONGEST = 4.0
#: Seconds until a caller whose call has failed calls again.
PAUSE = 0.5

#: Seconds of each call, by its kind.
Taken = dict[str, list[float]]


def measure(bench: Bench) -> Iterator[Figure]:
    """hung_outside_p99: the p99 of claims, ends and reads while Placement and libvirt hang, 64
    callers want to wait for each of the two, and 32 clients of the read API do not finish their
    request or do not read the answer, against their p99 while the agent is idle. The kind with the
    worst ratio counts."""
    outside = HungOutside(bench.directory(), bench.rabbitmq, bench.libvirtd, bench.placement)
    idle: Taken = defaultdict(list)
    hung: Taken = defaultdict(list)
    try:
        _rounds(outside, defaultdict(list), WARM_UP)
        for _ in range(bench.rounds(TURNS)):
            wait_until(outside.ready, 90)
            _rounds(outside, idle)
            with _everything_hangs(outside):
                _rounds(outside, hung)
    finally:
        outside.close()
    figures = [
        Figure(
            name="hung_outside_p99",
            value=percentile(hung[kind], 0.99) * 1000,
            unit="ms",
            floor=percentile(idle[kind], 0.99) * 1000,
            target=3,
        )
        for kind in idle
    ]
    yield max(figures, key=lambda figure: figure.ratio or 0.0)


@contextmanager
def _everything_hangs(outside: HungOutside) -> Iterator[None]:
    """Let the external services hang during the block, while callers wait for them."""
    thawed = threading.Event()

    def wait_again(method: str) -> None:
        while not thawed.is_set():
            try:
                outside.call_waiting(method)
            except RtAgentError:
                thawed.wait(PAUSE)

    with outside.frozen(outside.placement, outside.libvirtd), outside.mute_readers(16):
        calls = []
        for method in ("update_available_resource", "sync_placement"):
            calls += outside.start_calls(method, 64 - SLOW_CALLS)
            calls += [outside.start(partial(wait_again, method)) for _ in range(SLOW_CALLS)]
        wait_until(lambda: sum(not call.done() for call in calls) <= 4 * SLOW_CALLS, 60)
        yield
        thawed.set()
    for call in calls:
        call.exception(90)


def _rounds(outside: HungOutside, taken: Taken, rounds: int = ROUNDS) -> None:
    api = outside.api

    def timed(kind: str, call: Callable[..., Any], *arguments: object) -> Any:
        began = time.perf_counter()
        try:
            return call(*arguments)
        finally:
            taken[kind].append(time.perf_counter() - began)

    end = time.monotonic() + LONGEST
    for _ in range(rounds):
        if time.monotonic() > end:
            break
        try:
            claim = timed("claim", outside.claim)
        except (HypervisorUnavailable, NodeNotReady):
            continue  # the agent has noticed that libvirt hangs
        timed("read", api.get_claim, CONTEXT, claim["uuid"])
        timed("end", api.release_claim, CONTEXT, claim["uuid"])
        timed("read", api.ping, CONTEXT)
