"""Heartbeat: the heartbeat of this service, and whether the scheduler may select the host."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rtagent.errors import StoreUnavailable
from rtagent.ports import Service, ServiceRegistry
from rtagent.service.context import NodeContext
from rtagent.service.loop import Rest, every
from rtagent.tracker import ResourceTracker

PART = "heartbeat"


class Heartbeat:
    """A `ServiceRegistry` that remembers the last record of its own host."""

    def __init__(
        self, context: NodeContext, registry: ServiceRegistry, tracker: ResourceTracker
    ) -> None:
        self._context, self._registry, self._tracker = context, registry, tracker
        self._reporter = context.reporter.named(__name__)
        self._host = tracker.snapshot().node.host
        self._service = Service(host=self._host, binary="rtagent")

    @property
    def disabled(self) -> bool:
        """Whether an operator has disabled the service or forced it down."""
        return self._service.disabled or self._service.forced_down

    def turn(self) -> Rest:
        """Send one heartbeat."""
        try:
            # A writer that has nothing to write would not notice otherwise that it is fenced.
            self._tracker.check_position()
            self.heartbeat(self._host, self._context.clock.now())
        except StoreUnavailable as error:
            self._reporter.health(PART, "warn", error.message)
        else:
            self._reporter.health(PART, "pass")
        return every(self._context.settings.current.default.report_interval)

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
