"""SchedulerEndpoint: dispatches the calls of a scheduler's RPC server to the endpoint groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import oslo_messaging

from rtagent.errors import RtAgentError
from rtagent.model.base import Value
from rtagent.ports import Clock, Reporter
from rtagent.rpc import aggregate_endpoint, report_endpoint, selection_endpoint
from rtagent.rpc.aggregate_endpoint import AggregateEndpoint, NoArguments, ServiceEndpoint, Services
from rtagent.rpc.in_flight import InFlight
from rtagent.rpc.method import Method, declared, rpc_method
from rtagent.rpc.report_endpoint import ReportEndpoint
from rtagent.rpc.roles import ANY
from rtagent.rpc.selection_endpoint import SelectionEndpoint
from rtagent.rpc.serving import CheckCaller, Serving
from rtagent.rpc.trust.access import Access, Authenticate, accept_unsigned

VERSION = "1.3"


class SchedulerPong(Value, frozen=True, kw_only=True):
    """:ivar version: of the software. :ivar host: the name of the server.
    :ivar scheduler_uuid: made at each start: it identifies the process that answers.
    :ivar uptime: seconds since its start. :ivar hosts: the number of hosts that it knows.
    :ivar complete: whether it knows all hosts. :ivar time: of its clock, see `clock_text`.
    """

    version: str
    host: str
    scheduler_uuid: str
    uptime: float
    hosts: int
    complete: bool
    time: str


class PingEndpoint:
    """Serves the method that says who answers."""

    def __init__(self, pong: Callable[[], SchedulerPong]) -> None:
        self._pong = pong

    @rpc_method(ANY)
    def ping(self, arguments: NoArguments) -> SchedulerPong:
        """Return the version, host and start of the scheduler that answers, how many hosts it
        knows, and the time of its clock. It never needs a signature."""
        return self._pong()


class SchedulerEndpoint:
    """Has one public attribute for each method of `rtagent.rpc.scheduler_endpoint.METHODS`."""

    target = oslo_messaging.Target(version=VERSION)

    def __init__(
        self,
        scheduler: selection_endpoint.HostSelector,
        hosts: report_endpoint.ReportReceiver,
        aggregates: aggregate_endpoint.AggregateStore,
        services: Services,
        pong: Callable[[], SchedulerPong],
        not_ready: Callable[[], RtAgentError | None],
        unknown_claim: Callable[[str], None],
        in_flight: InFlight,
        clock: Clock,
        reporter: Reporter,
        authenticate: Authenticate = accept_unsigned,
        access: Access | None = None,
        check_caller: CheckCaller = lambda *_: None,
    ) -> None:
        """:param not_ready: and :param unknown_claim: see `SelectionEndpoint`.
        :param authenticate: see `Authenticate`. :param access: and the last one: see `Serving`.
        """
        groups = (
            SelectionEndpoint(scheduler, not_ready, unknown_claim),
            AggregateEndpoint(aggregates),
            ServiceEndpoint(services),
            ReportEndpoint(hosts),
            PingEndpoint(pong),
        )
        Serving(
            in_flight,
            clock,
            reporter,
            authenticate=authenticate,
            access=access,
            check_caller=check_caller,
        ).add(self, groups)


#: In the order in which the reference lists their methods.
GROUPS = (SelectionEndpoint, AggregateEndpoint, ServiceEndpoint, ReportEndpoint, PingEndpoint)

#: By name.
METHODS: Mapping[str, Method] = {
    method.name: method for group in GROUPS for method in declared(group)
}
