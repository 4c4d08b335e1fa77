"""The messages of a scheduler: its casts, and a probe that calls its server through the broker."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.conf.settings import SettingsHolder
from rtagent.errors import RtAgentError
from rtagent.ports import Reporter
from rtagent.rpc import AGENT, SCHEDULER, casts, roles
from rtagent.rpc.broker.refusals import explained
from rtagent.rpc.calls import UNANSWERED
from rtagent.rpc.client import SchedulerAPI
from rtagent.rpc.server import PART, RpcServer
from rtagent.scheduler.tracked_host import Wanted
from rtagent.service.loop import Backoff, Rest, every

#: To all schedulers: the aggregates in the shared database were changed.
REREAD = casts.CastMessage(method="update_aggregates", arguments={})
#: The most operation ids that wait.
MAX_UNKNOWN = 1000


class SchedulerMessages:
    """The turns of the thread ``casts``. The other methods are thread-safe and return at once.

    Waiting requests to one agent are merged into one.
    """

    def __init__(
        self, transport: oslo_messaging.RPCTransport, reporter: Reporter, wake: Callable[[], None]
    ) -> None:
        """:param wake: runs the next turn soon."""
        self._agents = casts.BoundedCasts(transport, AGENT, roles.SCHEDULER)
        self._corrections = casts.BoundedCasts(transport, AGENT, roles.SCHEDULER)
        self._schedulers = casts.BoundedCasts(transport, SCHEDULER, roles.SCHEDULER)
        self._reporter = reporter.named(__name__)
        self._lock = threading.Lock()
        self._questions: dict[str | None, Wanted] = {}
        self._aggregates = False
        self._unknown: deque[str] = deque(maxlen=MAX_UNKNOWN)
        self._backoff = Backoff()
        self._wake = wake

    def ask(self, wanted: Wanted) -> None:
        """Request reports from an agent, or from all agents; or correct what an agent has."""
        with self._lock:
            known = self._questions.get(wanted.host, wanted)
            self._questions[wanted.host] = Wanted(
                host=wanted.host,
                description=wanted.description or known.description,
                instances=wanted.instances or known.instances,
                forced_down=known.forced_down if wanted.forced_down is None else wanted.forced_down,
            )
        self._wake()

    def aggregates_changed(self) -> None:
        """Let the other schedulers read the aggregates again."""
        self._aggregates = True
        self._wake()

    def unknown_claim(self, operation_id: str) -> None:
        """Make the other schedulers forget an assumed claim. While the broker is away, the
        message may be dropped; then the claim is forgotten later.
        """
        self._unknown.append(operation_id)
        self._wake()

    def turn(self) -> Rest:
        """Send the waiting messages. After a failure, send them later."""
        try:
            self._send()
        except casts.CastFailed as error:
            self._reporter.log(
                "warning", f"requests to agents and schedulers wait for the message broker: {error}"
            )
            return every(self._backoff.pause())
        self._backoff.reset()
        return Rest()

    def _send(self) -> None:
        while (wanted := self._next()) is not None:
            try:
                self._send_to_agents(wanted)
            except casts.CastFailed:
                self.ask(wanted)
                raise
        unknown = [self._unknown.popleft() for _ in range(len(self._unknown))]
        if unknown:
            self._schedulers.send([casts.dropped_claim(each) for each in unknown])
        if self._aggregates:
            self._aggregates = False
            try:
                self._schedulers.send([REREAD])
            except casts.CastFailed:
                self._aggregates = True
                raise

    def _send_to_agents(self, wanted: Wanted) -> None:
        if wanted.forced_down is not None:
            self._corrections.send([casts.forced_down(wanted.forced_down)], wanted.host)
        if wanted.forced_down is None or wanted.description or wanted.instances:
            message = casts.report_host_state(
                description=wanted.description, instances=wanted.instances
            )
            self._agents.send([message], wanted.host)

    def _next(self) -> Wanted | None:
        with self._lock:
            host = next(iter(self._questions), None)
            return self._questions.pop(host, None)


#: Seconds for which a probe waits for its answer.
PROBE_TIMEOUT = 5.0


class SchedulerProbe:
    """The turns of the thread ``rpc-probe``, which show whether calls reach this scheduler's
    server.
    """

    def __init__(
        self,
        transport: oslo_messaging.RPCTransport,
        server: RpcServer,
        settings: SettingsHolder,
        scheduler_uuid: str,
        reporter: Reporter,
    ) -> None:
        """:param scheduler_uuid: identifies this start of the scheduler."""
        self._server, self._settings, self._uuid = server, settings, scheduler_uuid
        self._reporter = reporter.named(__name__)
        host = settings.current.default.host
        self._api = SchedulerAPI(transport, host, timeout=PROBE_TIMEOUT, attempts=1)

    def turn(self) -> Rest:
        """Make a call. Before the server has started, make none, because the server then reports
        its own status.
        """
        if self._server.wait_started(0):
            error = self._probe()
            self._reporter.health(PART, "fail" if error else "pass", error)
        return every(self._settings.current.default.report_interval)

    def _probe(self) -> str:
        """Return why calls do not reach the server, or ""."""
        try:
            reply = self._api.ping(RequestContext(roles=[roles.SCHEDULER], overwrite=False))
        except (RtAgentError, *UNANSWERED) as error:
            return f"calls do not reach the server: {explained(error)}"
        if reply["scheduler_uuid"] != self._uuid:
            return (
                f"another scheduler has the [DEFAULT] host {reply['host']}, too: give one of them"
                " a name of its own, or stop it"
            )
        return ""
