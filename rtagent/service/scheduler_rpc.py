"""SchedulerRpc: the RPC server of a scheduler, and a probe that calls it through the broker."""

from __future__ import annotations

import threading

import oslo_messaging
from oslo_context.context import RequestContext

from rtagent.conf.settings import SettingsHolder
from rtagent.errors import RtAgentError
from rtagent.ports import Clock, Reporter
from rtagent.rpc import roles
from rtagent.rpc.broker.refusals import explained
from rtagent.rpc.calls import UNANSWERED
from rtagent.rpc.in_flight import InFlight
from rtagent.rpc.scheduler_client import SchedulerAPI
from rtagent.rpc.scheduler_endpoint import SchedulerEndpoint
from rtagent.rpc.server import PART, RpcServer
from rtagent.rpc.topics import SCHEDULER
from rtagent.service.loop import Loop, Rest, every

#: Seconds for which a probe waits for its answer.
PROBE_TIMEOUT = 5.0


class SchedulerRpc:
    """:ivar probe: the thread ``rpc-probe``."""

    def __init__(
        self,
        transport: oslo_messaging.RPCTransport,
        settings: SettingsHolder,
        endpoint: SchedulerEndpoint,
        in_flight: InFlight,
        scheduler_uuid: str,
        clock: Clock,
        reporter: Reporter,
    ) -> None:
        """:param scheduler_uuid: identifies this start of the scheduler."""
        host = settings.current.default.host
        self._settings, self._uuid = settings, scheduler_uuid
        self._reporter = reporter.named(__name__)
        self._server = RpcServer(transport, host, endpoint, in_flight, clock, reporter, SCHEDULER)
        self._starting = threading.Event()
        self._api = SchedulerAPI(transport, host, timeout=PROBE_TIMEOUT, attempts=1)
        self.probe = Loop("rpc-probe", self._turn, clock, reporter)

    def start(self) -> None:
        """Start to serve as soon as the broker allows. Returns at once."""
        self._server.start()
        self._starting.set()

    def started(self) -> bool:
        """Whether calls are served. Returns at once."""
        return self.wait_started(0)

    def wait_started(self, timeout: float) -> bool:
        """Wait until calls are served, for `timeout` seconds. Return whether they are."""
        return self._starting.is_set() and self._server.wait_started(timeout)

    def stop(self, timeout: float) -> bool:
        """Accept no more calls and finish those in flight: see `RpcServer.stop`."""
        return self._server.stop(timeout)

    def _turn(self) -> Rest:
        """Make a call. Before the server has started, make none, because the server then reports
        its own status.
        """
        if self.started():
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
