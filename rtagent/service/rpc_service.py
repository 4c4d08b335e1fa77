"""RpcService: the RPC server of a node, the lock of its host name, and a probe that calls the
server through the message broker.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.conf.settings import SettingsHolder
from rtagent.errors import RtAgentError
from rtagent.ports import Clock, Reporter
from rtagent.rpc.broker.refusals import explained
from rtagent.rpc.calls import UNANSWERED
from rtagent.rpc.client import AgentAPI
from rtagent.rpc.duplicates import Duplicates, identity_of
from rtagent.rpc.endpoint import Endpoint
from rtagent.rpc.host_lock import host_lock
from rtagent.rpc.in_flight import InFlight
from rtagent.rpc.roles import AGENT
from rtagent.rpc.server import RpcServer
from rtagent.rpc.transport import get_transport
from rtagent.service.host_lock_turns import HostLockTurns
from rtagent.service.loop import Loop, Rest, every
from rtagent.service.rpc_health import RpcHealth

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
    """:ivar probe: the thread ``rpc-probe``.
    :ivar locking: the thread ``host-lock``; None if the broker has no such lock.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        settings: SettingsHolder,
        endpoint: Endpoint,
        in_flight: InFlight,
        duplicates: Duplicates,
        clock: Clock,
        reporter: Reporter,
    ) -> None:
        transport, host = get_transport(conf), settings.current.default.host
        self._server = RpcServer(transport, host, endpoint, in_flight, clock, reporter)
        self._starting = threading.Event()
        self._api = AgentAPI(transport, host, timeout=PROBE_TIMEOUT, attempts=1)
        self._health = RpcHealth(duplicates, self.started, reporter)
        probe = RpcProbe(self, settings, duplicates, self._health)
        self.probe = Loop("rpc-probe", probe.turn, clock, reporter)
        self.locking: Loop | None = None
        self._lock = host_lock(transport, host, duplicates.me, duplicates.seen)
        if self._lock is not None:
            turn = HostLockTurns(
                self._lock, duplicates, self._health, self._start_server, clock
            ).turn
            self.locking = Loop("host-lock", turn, clock, reporter)

    def start(self) -> None:
        """Start to serve as soon as the host lock and the broker allow. Returns at once."""
        if self.locking is None:
            self._start_server()
        else:
            self.locking.start()

    @property
    def loops(self) -> Sequence[Loop]:
        """The threads of RPC."""
        return [self.probe] if self.locking is None else [self.probe, self.locking]

    def started(self) -> bool:
        """Whether the server serves calls. Returns at once."""
        return self.wait_started(0)

    def wait_started(self, timeout: float) -> bool:
        """Wait until calls are served, for about `timeout` seconds. Return whether they are."""
        return self._starting.wait(timeout) and self._server.wait_started(timeout)

    def stop(self, timeout: float) -> bool:
        """Accept no more calls and finish those in flight: see `RpcServer.stop`. Then release the
        host lock.
        """
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

    def _start_server(self) -> None:
        if not self._starting.is_set():
            self._server.start()
            self._health.starting = True
            self._starting.set()


class RpcProbe:
    """The turns of the thread ``rpc-probe``, which check that calls reach this agent's server, and
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
