"""HostLockTurns: takes and keeps the lock of the host name, and starts the RPC server."""

from __future__ import annotations

import math
from collections.abc import Callable

from rtagent.ports import Clock
from rtagent.rpc.broker.refusals import explained
from rtagent.rpc.duplicates import Duplicates
from rtagent.rpc.host_lock import HEARTBEAT, Attempt, HostLock, Outcome
from rtagent.service.loop import Rest, every
from rtagent.service.rpc_health import RpcHealth

#: Seconds of a turn that keeps the lock. Each heartbeat of the broker, which come twice in an
#: interval, begins it anew: it has to be shorter than the time between two of them.
TURN = 2.0
#: Seconds between two attempts to take a lock that another connection has.
RETRY = 3.0
#: Seconds between two attempts to reach the broker.
RECONNECT = 1.0
#: Seconds after which a holder that does not answer is ignored. The broker drops a dead connection
#: earlier, but it may also fail to do so, and then the agent must serve nevertheless.
PATIENCE = 30.0
#: Seconds for which the lock counts as held after a turn that has kept it. The broker drops a
#: silent connection at the earliest two intervals after the heartbeat at the end of that turn. Half
#: an interval is left for what comes between.
TRUST = 1.5 * HEARTBEAT

SILENT = "the host lock is held by a connection that does not answer"


class HostLockTurns:
    """The turns of the thread ``host-lock``.

    The server starts when the lock is held, so that calls never reach a second agent. It also
    starts without the lock if the broker refuses the lock or cannot be reached; the server itself
    waits for the broker. An agent that loses the lock, because the broker was away, continues to
    serve. Until it has the lock again, it does not answer for claims that it does not know.
    """

    def __init__(
        self,
        lock: HostLock,
        duplicates: Duplicates,
        health: RpcHealth,
        start_server: Callable[[], None],
        clock: Clock,
    ) -> None:
        """:param start_server: idempotent."""
        self._lock, self._duplicates, self._health = lock, duplicates, health
        self._start_server, self._clock = start_server, clock
        # The last outcome, and since when it has been the same.
        self._attempt: Attempt | None = None
        self._since = 0.0

    def turn(self) -> Rest:
        """Keep the lock for some time, or try to take it."""
        self._duplicates.forget()
        if self._lock.held and self._lock.keep(TURN):
            self._duplicates.trust(TRUST)
            self._health.report()
            return every(0.0)
        rest = self._react(self._lock.take())
        self._health.report()
        return rest

    def _react(self, outcome: Outcome) -> Rest:
        if outcome.attempt is not self._attempt or outcome.holder is not None:
            self._attempt, self._since = outcome.attempt, self._clock.monotonic()
            self._health.reached = False  # an earlier probe shows nothing about the broker now
        self._health.locked = outcome.attempt is Attempt.HELD
        if outcome.attempt is Attempt.HELD:
            self._serve("", TRUST)
            return every(0.0)
        if outcome.attempt is Attempt.REFUSED:
            self._serve(f"the broker refuses the host lock: {explained(outcome.why)}", math.inf)
            return every(PATIENCE)
        if outcome.holder is not None:
            self._duplicates.seen(outcome.holder)
            return every(RETRY)
        return self._wait(outcome)

    def _wait(self, outcome: Outcome) -> Rest:
        """Go on without the lock for now, and in the end for good."""
        taken = outcome.attempt is Attempt.TAKEN
        why = SILENT if taken else f"the host lock cannot be taken: {explained(outcome.why)}"
        # While the broker is away, no caller waits, and another agent may return first.
        away = not taken and not self._health.reached
        if self._clock.monotonic() - self._since >= PATIENCE and not away:
            self._serve(why, math.inf)
        elif taken:
            self._health.lock_doubt = why
            self._duplicates.trust(0)
        else:
            self._serve(why, 0)
        return every(RETRY if taken else RECONNECT)

    def _serve(self, doubt: str, trust: float) -> None:
        """Serve, if the server has not started yet.

        :param doubt: why the lock is not held; "": it is.
        :param trust: seconds for which this agent may trust that it is the only one.
        """
        self._health.lock_doubt = doubt
        self._duplicates.trust(trust)
        self._start_server()
