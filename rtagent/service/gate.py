"""Gate: whether creating calls are answered, and with what error while they are not."""

from __future__ import annotations

from rtagent.errors import HypervisorUnavailable, NodeNotReady, RtAgentError, StoreUnavailable
from rtagent.tracker import ResourceTracker


class Gate:
    """Closed until the first good audit, and while the hypervisor is away."""

    def __init__(self, tracker: ResourceTracker) -> None:
        self._tracker = tracker
        self._error: NodeNotReady | HypervisorUnavailable | None = NodeNotReady()
        tracker.hold_back(self._error)

    @property
    def why_closed(self) -> RtAgentError | None:
        """The error that a creating call would get now, whatever the reason."""
        if self._tracker.fault is not None:
            return self._tracker.fault
        if self._tracker.stale:
            return StoreUnavailable()
        return self._error

    @property
    def hypervisor_up(self) -> bool | None:
        """None before the first audit has told."""
        if isinstance(self._error, NodeNotReady):
            return None
        return self._error is None

    def not_ready(self, why: str) -> None:
        """An audit was done, and not enough is known to open."""
        if isinstance(self._error, NodeNotReady):
            self._error = NodeNotReady(why)
            self._tracker.hold_back(self._error)

    def open(self) -> bool:
        """A good audit was done. Whether the gate was closed."""
        was_closed, self._error = self._error is not None, None
        self._tracker.hold_back(None)
        return was_closed

    def close(self, error: HypervisorUnavailable) -> bool:
        """The hypervisor is away. Whether that is news."""
        news = not isinstance(self._error, HypervisorUnavailable)
        self._error = error
        self._tracker.hold_back(error)
        return news
