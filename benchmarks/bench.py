"""Bench: what the measurements share: servers, directories, timers, numbers of rounds."""

from __future__ import annotations

import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.rpc.transport import get_transport
from tests.servers import Libvirtd, Placement, RabbitMQ

CONTEXT = RequestContext(roles=["operator"], overwrite=False)


class Bench:
    """Servers start when a measurement first needs them, and end with the run."""

    def __init__(self, stack: ExitStack, quick: bool) -> None:
        self._stack, self.quick = stack, quick

    def rounds(self, number: int) -> int:
        """Return `number`, or a fifth of it in a quick run."""
        return max(1, number // 5) if self.quick else number

    @cached_property
    def rabbitmq(self) -> RabbitMQ:
        return self._stack.enter_context(RabbitMQ())

    @cached_property
    def placement(self) -> Placement:
        return self._stack.enter_context(Placement())

    @cached_property
    def libvirtd(self) -> Libvirtd:
        return self._stack.enter_context(Libvirtd())

    @cached_property
    def transport(self) -> Any:
        """The transport of this process, which is the only client."""
        conf = cfg.ConfigOpts()
        conf([], project="rtagent", default_config_files=[])
        transport = get_transport(conf, self.rabbitmq.transport_url)
        self._stack.callback(transport.cleanup)
        return transport

    def directory(self) -> Path:
        """Return a new directory on the disk of the checkout; it is removed after the run."""
        made = tempfile.TemporaryDirectory(prefix=".bench-", dir=Path(__file__).parent)
        return Path(self._stack.enter_context(made))

    def keep(self, context: Any) -> Any:
        """Enter a context manager that exits with the run."""
        return self._stack.enter_context(context)


def seconds_each(call: Callable[[], object], rounds: int) -> list[float]:
    """Return the seconds that each of the calls took."""
    taken = []
    for _ in range(rounds):
        began = time.perf_counter()
        call()
        taken.append(time.perf_counter() - began)
    return taken


def p50_ms(call: Callable[[], object], rounds: int) -> float:
    """Return the median time of a call in milliseconds."""
    return median(seconds_each(call, rounds)) * 1000


def percentile(taken: Iterable[float], share: float) -> float:
    """Return the value that this share of the values does not exceed."""
    ordered = sorted(taken)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def calls_per_second(call: Callable[[], object], callers: int, rounds: int) -> float:
    """Return the rate of calls from several threads, each with `rounds` calls."""
    ready = threading.Barrier(callers + 1)

    def caller() -> None:
        ready.wait()
        for _ in range(rounds):
            call()

    with ThreadPoolExecutor(callers) as pool:
        done = [pool.submit(caller) for _ in range(callers)]
        ready.wait()
        began = time.perf_counter()
        for future in done:
            future.result()
        return callers * rounds / (time.perf_counter() - began)


def instance(vcpus: int = 1, memory_mb: int = 1) -> dict[str, Any]:
    """Return a new instance document."""
    return {
        "uuid": str(uuid.uuid4()),
        "project_id": "3f1b1b0e5c0f4d0c8a3f6b0a5c7d9e11",
        "user_id": "9d0c2f6e4b5a4c7f8e1d2a3b4c5d6e7f",
        "display_name": "bench",
        "vm_state": "building",
        "task_state": "spawning",
        "os_type": "linux",
        "flavor": {"name": "m1", "vcpus": vcpus, "memory_mb": memory_mb, "root_gb": 0},
    }
