"""Admission: whether calls that create claims are accepted, and the error with which they are
refused.
"""

from __future__ import annotations

from rtagent.errors import (
    HypervisorUnavailable,
    NodeNotReady,
    RtAgentError,
    StoreRestored,
    StoreUnavailable,
)
from rtagent.tracker import ResourceTracker


class Admission:
    """Closed until the first good audit, and while the hypervisor is unavailable.

    The tracker itself refuses claims while a restored store is not accepted.
    """

    def __init__(self, tracker: ResourceTracker) -> None:
        self._tracker = tracker
        self._error: NodeNotReady | HypervisorUnavailable | None = NodeNotReady()
        tracker.suspend_creation(self._error)

    @property
    def why_closed(self) -> RtAgentError | None:
        """The error that a call that creates a claim would get now; None: such calls
        are accepted.
        """
        if self._tracker.fault is not None:
            return self._tracker.fault
        if self._tracker.stale:
            return StoreUnavailable()
        if (restored := self._tracker.restored) is not None:
            return StoreRestored(restored=str(restored), revision=restored.revision)
        return self._error

    @property
    def hypervisor_up(self) -> bool | None:
        """Whether the hypervisor answers; None before the first good audit."""
        if isinstance(self._error, NodeNotReady):
            return None
        return self._error is None

    def not_ready(self, why: str) -> None:
        """Stay closed after an audit that was not good."""
        if isinstance(self._error, NodeNotReady):
            self._error = NodeNotReady(why)
            self._tracker.suspend_creation(self._error)

    def open(self) -> bool:
        """Open after a good audit. Return whether the admission was closed."""
        was_closed, self._error = self._error is not None, None
        self._tracker.suspend_creation(None)
        return was_closed

    def close(self, error: HypervisorUnavailable) -> bool:
        """Close because the hypervisor is unavailable. Return whether the admission was open."""
        changed = not isinstance(self._error, HypervisorUnavailable)
        self._error = error
        self._tracker.suspend_creation(error)
        return changed
