"""PlacementReports: Nova's report client, which reads allocations only where they are used."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class PlacementReports:
    """Passes everything on to Nova's client.

    Before each update of a provider tree, Nova reads the allocations of all guests, one request for
    each, in case an inventory moves to another provider of the tree. That happens only at the start
    of the service, and with PCI devices in Placement.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._thread = threading.local()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    @contextmanager
    def without_allocations(self) -> Iterator[None]:
        """While it is entered, this thread reads no allocations of provider trees."""
        self._thread.skips = True
        try:
            yield
        finally:
            self._thread.skips = False

    def get_allocations_for_provider_tree(self, context: Any, nodename: str) -> Any:
        """Return the allocations by consumer, or none."""
        if getattr(self._thread, "skips", False):
            return {}
        return self._client.get_allocations_for_provider_tree(context, nodename)
