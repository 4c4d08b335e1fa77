"""RpcService: the RPC server of a node, the lock of its host name, and a probe that calls the
server through the message broker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.conf.settings import SettingsHolder
from rtagent.errors import RtAgentError
from rtagent.ports import Clock, Reporter
from rtagent.rpc.broker.refusals import explained
from rtagent.rpc.calls import UNANSWERED
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.duplicates import Duplicates, identity_of
from rtagent.rpc.host_lock import HEARTBEAT, Attempt, HostLock, LockOutcome, host_lock
from rtagent.rpc.roles import AGENT
from rtagent.rpc.server import PART, RpcServer
from rtagent.rpc.serving import Endpoint, InFlight
from rtagent.service.loop import Loop, Rest, Turn, every


class RpcHealth:
    """Combines what the threads ``rpc-probe`` and ``host-lock`` find out.

    :ivar starting: the server starts or has started. While it starts it reports its own health.
    :ivar reached: whether a probe has reached the server since this was set to False.
    :ivar lock_doubt: why the host lock is not held; "": it is.
    :ivar locked: whether the host lock was held when that was last looked at.
    """

    def __init__(
        self, duplicates: Duplicates, started: Callable[[], bool], reporter: Reporter
    ) -> None:
        """:param started: whether the server has started."""
        self._duplicates, self._started = duplicates, started
        self._reporter = reporter.named(__name__)
        self.starting = self.reached = self.locked = False
        self.lock_doubt = self._probe_error = ""

    def probed(self, error: str) -> None:
        """Record a probe.

        :param error: why calls do not reach the server; "": they do.
        """
        self._probe_error, self.reached = error, not error

    def report(self) -> None:
        """Report the worst that is known."""
        if duplicate := self._duplicates.error:
            self._reporter.health(PART, "fail", duplicate.message)
        elif self.starting and not self._started():
            return
        elif self._probe_error:
            self._reporter.health(PART, "fail", self._probe_error)
        elif self.lock_doubt:
            self._reporter.health(PART, "warn", self.lock_doubt)
        elif self.starting:
            self._reporter.health(PART, "pass")


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

    def _react(self, outcome: LockOutcome) -> Rest:
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

    def _wait(self, outcome: LockOutcome) -> Rest:
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
        self._health.starting = True


#: Seconds for which a probe waits for its answer.
PROBE_TIMEOUT = 5.0
#: Calls of a probe without the host lock. The broker gives them to the consumers of a queue in
#: turn, so that a second agent gets one of them, unless other calls come between.
CALLS = 2
#: Turns between two probes that are answered while the lock is held, which excludes a second agent.
#: A fleet sends the messages of its probes all the time.
TURNS = 3
#: Seconds between two probes while another agent is known.
DUPLICATE_INTERVAL = 5.0
#: Seconds for the thread of the host lock to end.
LOCK_PATIENCE = 5.0


class RpcService:
    """:ivar locking: the thread ``host-lock``; None if the broker has no such lock."""

    def __init__(
        self,
        transport: oslo_messaging.RPCTransport,
        settings: SettingsHolder,
        endpoint: Endpoint,
        in_flight: InFlight,
        duplicates: Duplicates,
        casts: Loop,
        clock: Clock,
        reporter: Reporter,
    ) -> None:
        """:param casts: the thread of messages, not started yet. It gets the probe."""
        host = settings.current.default.host
        self._server = RpcServer(transport, host, endpoint, in_flight, clock, reporter)
        self._stopping = False
        self._api = AgentAPI(transport, host, timeout=PROBE_TIMEOUT, attempts=1)
        self._health = RpcHealth(duplicates, self.started, reporter)
        probe = RpcProbe(self, settings, duplicates, self._health)
        self._turns = [casts.add("rpc-probe", probe.turn)]
        self.locking: Loop | None = None
        self._lock = host_lock(transport, host, duplicates.me, duplicates.seen)
        if self._lock is not None:
            turn = HostLockTurns(
                self._lock, duplicates, self._health, self._server.start, clock
            ).turn
            self.locking = Loop("host-lock", turn, clock, reporter)
            self._turns += self.locking.turns

    def start(self) -> None:
        """Start to serve as soon as the host lock and the broker allow. Returns at once."""
        if self.locking is not None:
            self.locking.start()
        else:
            self._health.starting = True
            self._server.start()

    @property
    def turns(self) -> Sequence[Turn]:
        """What shows that calls can be served: the probe, and the turns of the host lock."""
        return self._turns

    def started(self) -> bool:
        """Whether the server serves calls, and is not asked to stop. Returns at once."""
        return not self._stopping and self.wait_started(0)

    def wait_started(self, timeout: float) -> bool:
        """Wait until calls are served, for `timeout` seconds. Return whether they are."""
        return self._server.wait_started(timeout)

    def stop(self, timeout: float) -> bool:
        """Accept no more calls and finish those in flight: see `RpcServer.stop`. Then release the
        host lock.
        """
        self._stopping = True
        stopped = self._server.stop(timeout)
        if self.locking is not None and self._lock is not None and self.locking.stop(LOCK_PATIENCE):
            self._lock.close()
        return stopped

    def ping(self) -> Mapping[str, Any]:
        """Call this agent's server through the broker, and return the reply.

        :raises RtAgentError: MessagingTimeout:
        """
        reply: Mapping[str, Any] = self._api.ping(RequestContext(roles=[AGENT], overwrite=False))
        return reply


class RpcProbe:
    """The turn ``rpc-probe``, which checks that calls reach this agent's server, and
    no other one.
    """

    def __init__(
        self,
        service: RpcService,
        settings: SettingsHolder,
        duplicates: Duplicates,
        health: RpcHealth,
    ) -> None:
        self._service, self._settings = service, settings
        self._duplicates, self._health = duplicates, health
        # Since the last probe.
        self._turns = TURNS

    def turn(self) -> Rest:
        """Make some calls, if it is time. Before the server has started, make none, because the
        server then reports its own status.
        """
        if self._service.started():
            if self._is_due():
                self._turns = 0
                self._health.probed(self._probe())
            self._duplicates.forget()
            self._health.report()
        interval = self._settings.current.default.report_interval
        return every(min(interval, DUPLICATE_INTERVAL) if self._duplicates.error else interval)

    def _is_due(self) -> bool:
        """Return whether to make calls in this turn."""
        health = self._health
        certain = health.locked and health.reached and not self._duplicates.error
        self._turns = self._turns + 1 if certain else TURNS
        return self._turns >= TURNS

    def _probe(self) -> str:
        """Return why the calls do not reach the server, or ""."""
        for _ in range(1 if self._health.locked else CALLS):
            try:
                reply = self._service.ping()
            except (RtAgentError, *UNANSWERED) as error:
                return f"calls do not reach the server: {explained(error)}"
            if reply.get("agent_uuid") != self._duplicates.me.agent_uuid:
                self._duplicates.seen(identity_of(reply))
        return ""
