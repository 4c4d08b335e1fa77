"""Audits: the schedule of the audits of the host, and the reaction to their results."""

import threading
from collections.abc import Callable, Sequence

from rtagent.audit import PERIODIC, AuditSummary, unobserved
from rtagent.embedded import EmbeddedNode
from rtagent.errors import HypervisorUnavailable, IdentityError, TrackerBusy
from rtagent.identity.node_identity import HostNodeIdentity
from rtagent.ports import Hypervisor
from rtagent.service.admission import Admission
from rtagent.service.context import (
    Fatal,
    Granting,
    HypervisorEvent,
    HypervisorLost,
    NodeContext,
    PolicyChanged,
    Reloaded,
    StoreReturned,
)
from rtagent.service.loop import LAST, Backoff, Rest, every

PART = "hypervisor"

#: The shortest pause between two audits in seconds, for any number of events. The pause is also at
#: least as long as the last audit took, so that audits take at most half of the time.
GAP = 1.0


class Audits:
    """The turns of the thread ``audit``: periodic audits, and an immediate audit after an event.

    A hypervisor that does not answer, and any other error of an audit, closes the admission, and
    the audit is tried again with back-off. When the hypervisor answers again and is still the same,
    every lease restarts with its full term, and the first good audit opens the admission.
    """

    def __init__(
        self,
        context: NodeContext,
        node: EmbeddedNode,
        hypervisor: Hypervisor,
        identity: HostNodeIdentity,
        admission: Admission,
        accepts: Sequence[Callable[[], bool]],
        wake: Callable[[], None],
    ) -> None:
        """:param identity: locks the hypervisor again after a loss of the connection.
        :param accepts: called after a good audit: each returns whether the configuration fits the
            host. If it does not, that was reported as fatal.
        :param wake: wakes the thread.
        """
        self._context, self._clock = context, context.clock
        self._reporter = context.reporter.named(__name__)
        self._node, self._hypervisor, self._identity = node, hypervisor, identity
        self._admission, self._accepts = admission, accepts
        self._backoff = Backoff()
        self._lock = threading.Lock()
        self._causes: list[str] = ["start"]
        self._done_at: float | None = None
        self._losses, self._wake = 0, wake
        bus = context.bus
        bus.subscribe(HypervisorEvent, self._noticed)
        bus.subscribe(StoreReturned, self._store_returned)
        bus.subscribe(PolicyChanged, lambda _: self.request("policy"))
        bus.subscribe(Reloaded, lambda _: self.request("reload"))

    @property
    def age(self) -> float:
        """Seconds since the last good audit ended; infinite before the first."""
        return float("inf") if self._done_at is None else self._clock.monotonic() - self._done_at

    def request(self, cause: str) -> None:
        """Audit soon. Any thread may call it; several causes share one audit."""
        self._add_cause(cause)
        self._wake()

    def lost(self, error: HypervisorUnavailable) -> None:
        """Close the admission until an audit that begins later is good. Any thread may call it."""
        self._losses += 1
        if self._admission.close(error):
            self._context.bus.publish(HypervisorLost())

    def turn(self) -> Rest:
        """Run one audit."""
        cause = self._take_causes()
        began, losses = self._clock.monotonic(), self._losses
        try:
            if self._admission.hypervisor_up is False:
                self._reconnect()
            summary = self._node.auditor.run(cause)
            if self._losses != losses:
                raise HypervisorUnavailable("the connection to it was lost during an audit")
        except HypervisorUnavailable as error:
            return self._failed(error)
        except TrackerBusy as error:
            self._reporter.log("warning", f"audit ({cause}) is postponed: {error.message}")
            self._add_cause(cause)
            return every(self._backoff.pause())
        except Exception as error:
            self._failed(unobserved(error))
            raise  # to the loop, which reports where it comes from
        return self._done(cause, summary, self._clock.monotonic() - began)

    def _noticed(self, event: HypervisorEvent) -> None:
        """React to the hypervisor. A lost connection closes the admission at once."""
        if event.name == "connection":
            self.lost(HypervisorUnavailable("the connection to it was lost"))
        self.request(event.name)

    def _store_returned(self, _: StoreReturned) -> None:
        self._node.tracker.restart_leases()
        self.request("store")

    def _add_cause(self, cause: str) -> None:
        with self._lock:
            if cause not in self._causes:
                self._causes.append(cause)

    def _take_causes(self) -> str:
        with self._lock:
            causes, self._causes = self._causes, []
        return "+".join(sorted(causes)) or PERIODIC

    def _reconnect(self) -> None:
        """Lock the hypervisor again after a loss of the connection. It must be the same machine."""
        found = self._hypervisor.identity()
        try:
            self._identity.lock_hypervisor(found)
        except IdentityError as error:
            self._context.bus.publish(Fatal(error=error))
            raise HypervisorUnavailable(error.message) from error
        self._node.tracker.restart_leases()

    def _failed(self, error: HypervisorUnavailable) -> Rest:
        self._add_cause("return")
        self._reporter.health(PART, "fail", error.message)
        self.lost(error)
        return every(self._backoff.pause())

    def _done(self, cause: str, summary: AuditSummary, seconds: float) -> Rest:
        if summary.complete:
            self._reporter.health(PART, "pass")
        if why := self._not_enough(summary):
            self._admission.not_ready(why)
            self._add_cause(cause)
            return every(self._backoff.pause())
        self._backoff.reset()
        self._done_at = self._clock.monotonic()
        if all(accept() for accept in self._accepts) and self._admission.open():
            self._context.bus.publish(Granting())
        interval = self._context.settings.current.default.audit_interval
        if self._node.tracker.creation.unlisted is not None:
            interval = min(interval, LAST)
        pause = max(GAP, seconds)
        return Rest(at_least=pause, at_most=pause if summary.skipped else max(pause, interval))

    def _not_enough(self, summary: AuditSummary) -> str:
        """The reason why no claim can be granted on the result of the audit, or ""."""
        if not summary.good:
            return str(summary)
        if self._node.state.topology is None:
            return f"the host's topology is not known yet: {summary}"
        return ""
