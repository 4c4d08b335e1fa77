"""ConductorPlacement: what a conductor reads and writes of the consumers in Placement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rtagent.placement.client import HttpPlacement
from rtagent.placement.loading import ThreadClient


class ConductorPlacement:
    """The allocations of instances and migrations. Thread-safe."""

    def __init__(self, connect: Callable[[], HttpPlacement]) -> None:
        """:param connect: makes a client. Each thread has its own."""
        self._local = ThreadClient(connect)

    def consumer(self, uuid: str) -> Mapping[str, Any]:
        """See `rtagent.conductor.ports.Allocations`, as for `write`."""
        return self._local.api.consumer(uuid)

    def write(self, consumers: Mapping[str, Mapping[str, Any]]) -> None:
        self._local.api.post_consumers(consumers)
