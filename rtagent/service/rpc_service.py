"""RpcService: the RPC server of a node, and a probe that calls it through the message broker."""

from __future__ import annotations

from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.conf.settings import SettingsHolder
from rtagent.errors import RtAgentError
from rtagent.ports import Clock, Reporter
from rtagent.rpc.client import UNANSWERED, AgentAPI
from rtagent.rpc.endpoint import Endpoint, InFlight
from rtagent.rpc.server import PART, RpcServer
from rtagent.rpc.transport import get_transport
from rtagent.service.loop import Loop, Rest, every

#: Seconds for which a probe waits for its answer.
PROBE_TIMEOUT = 5.0


class RpcService:
    """:ivar server: the RPC server. :ivar probe: the thread ``rpc-probe``."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        settings: SettingsHolder,
        endpoint: Endpoint,
        in_flight: InFlight,
        clock: Clock,
        reporter: Reporter,
    ) -> None:
        transport, host = get_transport(conf), settings.current.default.host
        self.server = RpcServer(transport, host, endpoint, in_flight, clock, reporter)
        self._api = AgentAPI(transport, host, timeout=PROBE_TIMEOUT, attempts=1)
        probe = RpcProbe(self, settings, reporter)
        self.probe = Loop("rpc-probe", probe.turn, clock, reporter)

    def started(self) -> bool:
        """Whether the server serves calls. Returns at once."""
        return self.server.wait_started(0)

    def ping(self) -> None:
        """Call this agent's server through the broker. :raises RtAgentError: MessagingTimeout:"""
        self._api.ping(RequestContext(overwrite=False))


class RpcProbe:
    """The turns of the thread ``rpc-probe``, which check that calls reach the server."""

    def __init__(self, service: RpcService, settings: SettingsHolder, reporter: Reporter) -> None:
        self._service, self._settings = service, settings
        self._reporter = reporter.named(__name__)

    def turn(self) -> Rest:
        """Make one call. Before the server has started, make none, because the server then reports
        its own status.
        """
        if self._service.started():
            try:
                self._service.ping()
            except (RtAgentError, *UNANSWERED) as error:
                self._reporter.health(PART, "fail", f"calls do not reach the server: {error}")
            else:
                self._reporter.health(PART, "pass")
        return every(self._settings.current.default.report_interval)
