"""ConductorPlacement: what a conductor reads and writes of the consumers in Placement."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from rtagent.placement.api import PlacementAPI


class ConductorPlacement:
    """The allocations of instances and migrations. Thread-safe."""

    def __init__(self, connect: Callable[[], PlacementAPI]) -> None:
        """:param connect: makes a client. Each thread has its own."""
        self._connect, self._local = connect, threading.local()

    def consumer(self, uuid: str) -> Mapping[str, Any]:
        """See `rtagent.conductor.ports.Allocations`, as for `write`."""
        return self._api.consumer(uuid)

    def write(self, consumers: Mapping[str, Mapping[str, Any]]) -> None:
        self._api.post_consumers(consumers)

    @property
    def _api(self) -> PlacementAPI:
        api: PlacementAPI | None = getattr(self._local, "api", None)
        if api is None:
            api = self._local.api = self._connect()
        return api
