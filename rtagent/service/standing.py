"""Standing: this service's heartbeat, and whether an operator has taken the host out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from rtagent.errors import StoreUnavailable
from rtagent.ports import Clock, Reporter, Service, ServiceRegistry
from rtagent.service.loop import Rest, every

PART = "heartbeat"


class Standing:
    """A `ServiceRegistry` that remembers what it was last told of its own host."""

    def __init__(
        self,
        registry: ServiceRegistry,
        host: str,
        clock: Clock,
        reporter: Reporter,
        *,
        prove: Callable[[], None],
        interval: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        """:param prove: called before each heartbeat: is the node still ours? An idle writer would
        not notice that it is fenced. Raises `StoreUnavailable`.
        :param interval: seconds between two heartbeats.
        :param changed: called when the host was taken out of scheduling, or put back."""
        self._registry, self._host = registry, host
        self._clock, self._reporter = clock, reporter
        self._prove, self._interval, self._changed = prove, interval, changed
        self._service = Service(host=host, binary="rtagent")

    @property
    def disabled(self) -> bool:
        """Out of scheduling, by an operator or because somebody found the host dead."""
        return self._service.disabled or self._service.forced_down

    def turn(self) -> Rest:
        """One heartbeat."""
        try:
            self._prove()
            self.heartbeat(self._host, self._clock.now())
        except StoreUnavailable as error:
            self._reporter.health(PART, "warn", error.message)
        else:
            self._reporter.health(PART, "pass")
        return every(self._interval())

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
                self._changed()
        return service
