"""Heartbeat: the heartbeat of this service, and whether the scheduler may select the host; and
the end of that when so many builds have failed in a row.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from rtagent.bus import StatePublished
from rtagent.errors import StoreUnavailable
from rtagent.model.base import made_from
from rtagent.model.host_report import ServiceState
from rtagent.ports import Service, ServiceRegistry
from rtagent.service.context import NodeContext, ServiceChanged
from rtagent.service.loop import Rest, every
from rtagent.tracker import ResourceTracker

PART = "heartbeat"
#: The part that shows settings of the database with which it may lose committed claims.
DURABILITY = "durability"
#: The part that shows that an operator has recorded this host as dead.
FORCED_DOWN = "forced_down"


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

    @property
    def state(self) -> ServiceState:
        """What the record of the service says."""
        return made_from(ServiceState, self._service)

    @property
    def why_forced_down(self) -> str:
        """Why no claim is granted while an operator has forced the host down; "": none has."""
        if not self._service.forced_down:
            return ""
        return (
            "an operator has forced this host down: no scheduler selects it, no claim is granted,"
            f" and its servers may be evacuated; rtagent service force-down {self._host} --off ends"
            " that"
        )

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

    def set_forced_down(self, host: str, forced_down: bool) -> Service:
        return self._note(self._registry.set_forced_down(host, forced_down))

    def services(self) -> Sequence[Service]:
        return self._registry.services()

    def _note(self, service: Service) -> Service:
        if service.host == self._host:
            state, before, self._service = self.state, self._service, service
            if state != self.state:
                self._context.bus.publish(
                    ServiceChanged(service=service, why_forced_down=self.why_forced_down)
                )
            if before.forced_down != service.forced_down:
                self._say_forced_down()
        return service

    def _say_forced_down(self) -> None:
        """Report that an operator has recorded this host as dead, although its agent runs."""
        if sentence := self.why_forced_down:
            self._reporter.health(FORCED_DOWN, "warn", sentence)
            self._reporter.log("warning", sentence)
        else:
            self._reporter.health(FORCED_DOWN, "pass")
            self._reporter.log("info", "this host is no longer forced down")


class BuildFailures:
    """Follows the published changes. It disables at each multiple of the threshold, so that a
    service that an operator has enabled again has as many attempts as before. A good build
    enables nothing.
    """

    def __init__(
        self, context: NodeContext, heartbeat: Heartbeat, host: str, wake: Callable[[], None]
    ) -> None:
        """:param wake: runs the next turn soon."""
        self._context, self._heartbeat, self._host = context, heartbeat, host
        self._reporter = context.reporter.named(__name__)
        self._wake, self._failed = wake, 0
        context.bus.subscribe(StatePublished, self._published)

    def _published(self, event: StatePublished) -> None:
        """Note whether the service is to be disabled."""
        options = self._context.settings.current.compute
        threshold = options.consecutive_build_service_disable_threshold
        for change in event.changes:
            if threshold and change.failed_builds and change.failed_builds % threshold == 0:
                self._failed = change.failed_builds
                self._wake()

    def beat(self) -> Rest:
        """Make a turn of the heartbeat; then disable the service, if that is due."""
        rest = self._heartbeat.turn()
        self._settle()
        return rest

    def _settle(self) -> None:
        """Disable the service, if that is due; if the database does not answer, later."""
        failed = self._failed
        if not failed:
            return
        reason = f"Auto-disabled due to {failed} build failures"
        try:
            if not self._heartbeat.state.disabled:  # an operator's reason stays
                self._heartbeat.set_disabled(self._host, True, reason)
                self._reporter.log(
                    "error", f"{reason}: rtagent service enable ends that, a good build does not"
                )
        except StoreUnavailable:
            return
        if self._failed == failed:
            self._failed = 0
