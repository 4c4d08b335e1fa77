"""KeptServices: the services that operators forced down, in the database and in the view."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from rtagent.db.registry import BINARY
from rtagent.ports import Reporter, Service, ServiceRegistry
from rtagent.scheduler.errors import HostNotFound
from rtagent.service.kept_records import KeptRecords

PART = "services"


class View(Protocol):
    """What uses the records, see `HostManager`."""

    def set_forced_down(self, hosts: Collection[str], released: Collection[str] = ()) -> None:
        """Replace the hosts that are forced down, and those that were."""
        ...

    def knows(self, host: str) -> bool:
        """Return whether a service host is in the view."""
        ...


class KeptServices:
    """Thread-safe. Every change is in the database first, then in the view.

    :ivar records: reads them, see `KeptRecords`.
    """

    def __init__(
        self,
        registry: ServiceRegistry,
        view: View,
        changed: Callable[[], None],
        reporter: Reporter,
    ) -> None:
        """Read the records.

        :param changed: is called after every change, so that other schedulers read them again.
        :raises StoreUnavailable:
        """
        self._registry, self._view = registry, view
        self._reporter = reporter.named(__name__)
        self.records = KeptRecords(PART, self._read, self._show, changed, self._reporter)

    def get(self, host: str) -> Service:
        """Return the record of a host. :raises HostNotFound: :raises StoreUnavailable:"""
        found = [each for each in self.records.read() if each.host == host]
        if found:
            return found[0]
        self._check_known(host)
        return Service(host=host, binary=BINARY)

    def force_down(self, host: str, forced_down: bool) -> Service:
        """Change the record of a host. :raises HostNotFound: :raises StoreUnavailable:"""
        self.get(host)
        service = self._registry.set_forced_down(host, forced_down)
        state = "forced down" if forced_down else "no longer forced down"
        self._reporter.log("info", f"an operator changed the service of {host}: it is {state}")
        self.records.after_change()
        return service

    def _check_known(self, host: str) -> None:
        if not self._view.knows(host):
            raise HostNotFound(host=host)

    def _read(self) -> list[Service]:
        return [each for each in self._registry.services() if each.binary == BINARY]

    def _show(self, found: list[Service]) -> None:
        forced = {each.host for each in found if each.forced_down}
        self._view.set_forced_down(forced, {each.host for each in found} - forced)
