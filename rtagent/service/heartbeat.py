"""Heartbeat: the heartbeat of this service, and whether the scheduler may select the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from rtagent.errors import StoreUnavailable
from rtagent.ports import Service, ServiceRegistry
from rtagent.service.context import NodeContext
from rtagent.service.loop import Rest, every
from rtagent.tracker import ResourceTracker

PART = "heartbeat"
#: The part that shows settings of the database with which it may lose committed claims.
DURABILITY = "durability"


class Heartbeat:
    """A `ServiceRegistry` that remembers the last record of its own host."""

    def __init__(
        self,
        context: NodeContext,
        registry: ServiceRegistry,
        tracker: ResourceTracker,
        faults: Callable[[], str] = str,
    ) -> None:
        """:param faults: returns what makes the database lose committed claims, or ""."""
        self._context, self._registry, self._tracker = context, registry, tracker
        self._faults = faults
        self._reporter = context.reporter.named(__name__)
        self._host = tracker.snapshot().node.host
        self._service = Service(host=self._host, binary="rtagent")

    @property
    def disabled(self) -> bool:
        """Whether an operator has disabled the service or forced it down."""
        return self._service.disabled or self._service.forced_down

    def turn(self) -> Rest:
        """Check the database, and send one heartbeat."""
        try:
            self._check_durability()
            # A writer that has nothing to write would not notice otherwise that it is fenced.
            self._tracker.check_position()
            self.heartbeat(self._host, self._context.clock.now())
        except StoreUnavailable as error:
            self._reporter.health(PART, "warn", error.message)
        else:
            self._reporter.health(PART, "pass")
        return every(self._context.settings.current.default.report_interval)

    def _check_durability(self) -> None:
        faults = self._faults()
        required = self._context.settings.current.database.require_durability
        status = ("fail" if required else "warn") if faults else "pass"
        self._reporter.health(DURABILITY, status, faults)

    # -- ServiceRegistry --------------------------------------------------------------------------

    def heartbeat(self, host: str, now: datetime) -> Service:
        return self._note(self._registry.heartbeat(host, now))

    def set_disabled(self, host: str, disabled: bool, reason: str | None) -> Service:
        return self._note(self._registry.set_disabled(host, disabled, reason))

    def services(self) -> Sequence[Service]:
        return self._registry.services()

    def _note(self, service: Service) -> Service:
        if service.host == self._host:
            before, self._service = self.disabled, service
            if self.disabled != before:
                self._context.events.service_changed()
        return service
