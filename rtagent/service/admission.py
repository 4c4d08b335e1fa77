"""Admission: whether calls that create claims are accepted, and the error with which they are
refused.
"""

import threading

from rtagent import errors
from rtagent.claims import draining_error
from rtagent.service.context import DuplicateChanged, ServiceChanged
from rtagent.tracker import ResourceTracker


class Admission:
    """Closed until the first good audit, while the hypervisor is unavailable, while another agent
    has the same host name, and while an operator has forced the host down. Thread-safe.

    The tracker itself refuses claims after an audit that has not observed the host, while a
    restored store is not accepted, and while the node drains.
    """

    def __init__(self, tracker: ResourceTracker) -> None:
        self._tracker = tracker
        self._lock = threading.Lock()
        self._duplicate: errors.DuplicateHost | None = None
        self._forced_down: errors.NodeNotReady | None = None
        self._error: errors.NodeNotReady | errors.HypervisorUnavailable | None = None
        self._set(errors.NodeNotReady())
        bus = tracker.bus
        bus.subscribe(DuplicateChanged, self._duplicated)
        bus.subscribe(ServiceChanged, self._service_changed)

    @property
    def why_closed(self) -> errors.RtAgentError | None:
        """The error that a call that creates a claim would get now; None: such calls
        are accepted.
        """
        if self._tracker.fault is not None:
            return self._tracker.fault
        if self._tracker.stale:
            return errors.StoreUnavailable()
        if (restored := self._tracker.restored) is not None:
            return errors.StoreRestored(restored=str(restored), revision=restored.revision)
        closed = self._suspension or self._tracker.creation.unobserved
        return closed or draining_error(self._tracker.snapshot())

    @property
    def duplicate(self) -> errors.DuplicateHost | None:
        """The error that names another agent of this host name; None: none is known."""
        return self._duplicate

    @property
    def hypervisor_up(self) -> bool | None:
        """Whether the hypervisor answers; None before the first good audit."""
        if isinstance(self._error, errors.NodeNotReady):
            return None
        return self._error is None

    def not_ready(self, why: str) -> None:
        """Stay closed after an audit that was not good."""
        if isinstance(self._error, errors.NodeNotReady):
            self._set(errors.NodeNotReady(why))

    def open(self) -> bool:
        """Open after a good audit. Return whether the admission was closed by an audit."""
        return self._set(None) is not None

    def close(self, error: errors.HypervisorUnavailable) -> bool:
        """Close because the hypervisor is unavailable. Return whether that is new."""
        return not isinstance(self._set(error), errors.HypervisorUnavailable)

    def _duplicated(self, event: DuplicateChanged) -> None:
        with self._lock:
            self._duplicate = event.error
            self._tracker.creation.suspend(self._suspension)

    def _service_changed(self, event: ServiceChanged) -> None:
        with self._lock:
            why = event.why_forced_down
            self._forced_down = errors.NodeNotReady(why) if why else None
            self._tracker.creation.suspend(self._suspension)

    @property
    def _suspension(self) -> errors.NodeNotReady | errors.HypervisorUnavailable | None:
        return self._duplicate or self._forced_down or self._error

    def _set(
        self, error: errors.NodeNotReady | errors.HypervisorUnavailable | None
    ) -> errors.NodeNotReady | errors.HypervisorUnavailable | None:
        """Replace the error of the audits, and return the one before."""
        with self._lock:
            before, self._error = self._error, error
            self._tracker.creation.suspend(self._suspension)
        return before
