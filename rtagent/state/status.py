"""WriterStatus: whether the state writer refuses decisions, and why."""

from __future__ import annotations

import threading

from rtagent.bus import Bus, WriterDown
from rtagent.errors import RtAgentError, WriterFenced


class WriterStatus:
    """Thread-safe. Staleness ends with a reload; a fault stays until the process ends."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._changed = threading.Condition()
        self._stale = ""
        self._fault: RtAgentError | None = None

    @property
    def stale(self) -> str:
        """Why the state may be behind the database's, or "" when it is not."""
        return self._stale

    @property
    def fault(self) -> RtAgentError | None:
        """`WriterFenced`: the process must stop. `InvariantViolated`: no claim is granted."""
        return self._fault

    @property
    def down(self) -> str:
        """Why every decision is refused, or "" when it is not."""
        return self._fault.message if isinstance(self._fault, WriterFenced) else self._stale

    def go_stale(self, why: str) -> None:
        """Refuse every decision until the state is reloaded."""
        with self._changed:
            self._stale = why or "the database does not answer"
            self._changed.notify_all()
        self._bus.publish(WriterDown())

    def reloaded(self) -> None:
        """The state is the database's again."""
        with self._changed:
            self._stale = ""
            self._changed.notify_all()

    def fail(self, error: RtAgentError) -> None:
        """Set the fault. `WriterFenced` is never replaced by another."""
        with self._changed:
            if not isinstance(self._fault, WriterFenced):
                self._fault = error
            self._changed.notify_all()
        self._bus.publish(WriterDown())

    def wait_up(self, timeout: float) -> bool:
        """Wait at most that many seconds until decisions are accepted; whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.down, timeout)
