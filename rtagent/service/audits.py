"""Audits: when the host is looked at, and what follows when it cannot be."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rtagent.audit import Auditor, AuditSummary
from rtagent.errors import HypervisorUnavailable, TrackerBusy
from rtagent.ports import Clock, HostIdentity, Hypervisor, Reporter
from rtagent.service.backoff import Backoff
from rtagent.service.gate import Gate
from rtagent.service.loop import Rest, every
from rtagent.tracker import ResourceTracker

PART = "hypervisor"

#: Seconds between two audits at least, however many events call for one; and as long as the last
#: one took, so that no more than half of the time goes into audits.
GAP = 1.0


class Audits:
    """The turns of the audit thread: periodic, and at once after an event.

    A hypervisor that does not answer closes the gate; it is tried again with back-off. When it is
    back, and is still the same one, every lease runs a full term again, and the first
    good audit opens the gate.
    """

    def __init__(
        self,
        auditor: Auditor,
        tracker: ResourceTracker,
        hypervisor: Hypervisor,
        gate: Gate,
        clock: Clock,
        reporter: Reporter,
        *,
        interval: Callable[[], float],
        returned: Callable[[HostIdentity], None],
        accepts: Callable[[], bool],
        opened: Callable[[], None],
        closed: Callable[[], None],
    ) -> None:
        """:param interval: seconds between two periodic audits; may be infinite.
        :param returned: told who answers again; raises `HypervisorUnavailable` when it must not be
            served.
        :param accepts: asked after each good audit, before the gate opens: whether it may.
        :param opened: called when the gate has opened. :param closed: when it has closed.
        """
        self._auditor, self._tracker, self._hypervisor = auditor, tracker, hypervisor
        self._gate, self._clock, self._reporter = gate, clock, reporter
        self._interval, self._returned, self._accepts = interval, returned, accepts
        self._opened, self._closed = opened, closed
        self._backoff = Backoff()
        self._lock = threading.Lock()
        self._causes: list[str] = ["start"]
        self._done_at: float | None = None
        self._losses = 0

    @property
    def age(self) -> float:
        """Seconds since the last good audit ended; infinite before the first."""
        return float("inf") if self._done_at is None else self._clock.monotonic() - self._done_at

    def because(self, cause: str) -> None:
        """Name a cause of the next audit; several share one."""
        with self._lock:
            if cause not in self._causes:
                self._causes.append(cause)

    def lost(self, error: HypervisorUnavailable) -> None:
        """Grant nothing from now on, until an audit that begins later is good; any thread may find
        that out."""
        self._losses += 1
        if self._gate.close(error):
            self._closed()

    def turn(self) -> Rest:
        """One audit."""
        cause = self._take_causes()
        began, losses = self._clock.monotonic(), self._losses
        try:
            if self._gate.hypervisor_up is False:
                self._return()
            summary = self._auditor.run(cause)
            if self._losses != losses:
                raise HypervisorUnavailable("the connection to it was lost during an audit")
        except HypervisorUnavailable as error:
            return self._put_off(error)
        except TrackerBusy as error:
            self._reporter.said("warning", f"audit ({cause}) was put off: {error.message}")
            self.because(cause)
            return every(self._backoff.pause())
        return self._done(cause, summary, self._clock.monotonic() - began)

    def _lacks(self, summary: AuditSummary) -> str:
        """Why the audit is not good enough to grant anything on, or nothing."""
        if not summary.good:
            return str(summary)
        if self._tracker.snapshot().topology is None:
            return f"what the host is made of is not known yet: {summary}"
        return ""

    def _take_causes(self) -> str:
        with self._lock:
            causes, self._causes = self._causes, []
        return "+".join(sorted(causes)) or "periodic"

    def _return(self) -> None:
        """The hypervisor was away: who is there now?"""
        self._returned(self._hypervisor.identity())
        self._tracker.restart_leases()

    def _put_off(self, error: HypervisorUnavailable) -> Rest:
        self.because("return")
        self._reporter.health(PART, "fail", error.message)
        self.lost(error)
        return every(self._backoff.pause())

    def _done(self, cause: str, summary: AuditSummary, seconds: float) -> Rest:
        if summary.complete:
            self._reporter.health(PART, "pass")
        if why := self._lacks(summary):
            self._gate.not_ready(why)
            self.because(cause)
            return every(self._backoff.pause())
        self._backoff.reset()
        self._done_at = self._clock.monotonic()
        if self._accepts() and self._gate.open():
            self._opened()
        return Rest(at_least=max(GAP, seconds), at_most=max(GAP, seconds, self._interval()))
