"""ServedScheduler: what the methods of a scheduler use."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Concatenate, ParamSpec, Protocol

from rtagent.capacity.advice import Advice
from rtagent.errors import RtAgentError
from rtagent.model.base import Value
from rtagent.model.host_report import HostReport, InstanceInfo
from rtagent.model.node import Aggregate
from rtagent.model.server import RequestSpec, Selections
from rtagent.ports import Service
from rtagent.scheduler.explanation import Explanation
from rtagent.scheduler.fleet_counts import FleetFlavor
from rtagent.scheduler.report_documents import InstanceMessage

P = ParamSpec("P")


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


class HostSelector(Protocol):
    """What selects hosts, see `rtagent.scheduler.select.Scheduler`."""

    def select_destinations(
        self,
        spec: RequestSpec,
        instance_uuids: Sequence[str],
        alternates: bool = False,
        claim: bool = True,
    ) -> tuple[Selections, ...]:
        """Select a host for each instance."""
        ...

    def explain(self, spec: RequestSpec, instance_uuid: str = ...) -> Explanation:
        """Return the results of all filters and weighers for each host."""
        ...

    def advise(self, spec: RequestSpec, count: int) -> Advice:
        """Return what makes room for so many instances of a request."""
        ...

    def forget_claim(self, operation_id: str) -> bool:
        """Forget an assumed claim. Return whether it was known."""
        ...


class ReportReceiver(Protocol):
    """What receives reports, see `rtagent.scheduler.host_manager.HostManager`."""

    def update_host_state(self, report: HostReport) -> None:
        """Take the state of a host."""
        ...

    def change_instances(
        self, message: InstanceMessage, instances: Sequence[InstanceInfo] | None
    ) -> None:
        """Take new and changed instances, the end of one, or all. :param instances: unpacked."""
        ...

    def set_aside(self, host: str, node_uuid: str, kind: str, why: str) -> None:
        """Select a node no more, because a message of this kind cannot be used."""
        ...


class AggregateStore(Protocol):
    """What keeps the aggregates, see `rtagent.service.kept_records.KeptAggregates`."""

    def list(self) -> tuple[Aggregate, ...]:
        """Return all aggregates, by name."""
        ...

    def create(self, name: str, metadata: Mapping[str, str], uuid: str) -> Aggregate:
        """Create an aggregate without hosts."""
        ...

    def change(
        self,
        aggregate: str,
        rule: Callable[Concatenate[Aggregate, P], Aggregate],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> Aggregate:
        """Change an aggregate by a rule of `aggregate_rules`."""
        ...

    def delete(self, aggregate: str) -> Aggregate:
        """Delete an aggregate without hosts."""
        ...

    def reread(self) -> None:
        """Read the aggregates again."""
        ...


class Services(Protocol):
    """What keeps the services, see `rtagent.service.kept_records.KeptServices`."""

    def get(self, host: str) -> Service:
        """Return the service of a host."""
        ...

    def force_down(self, host: str, forced_down: bool) -> Service:
        """Force the service of a host down, or no longer."""
        ...


class ServedScheduler(Value, frozen=True, kw_only=True):
    """:ivar count_room: returns the room of a request, see `FleetCounts.of_request`.
    :ivar spec_of: returns the request of a flavor of the catalogue, see `FleetCounts.spec_of`.
    :ivar not_ready: returns the error that selections get now, or None.
    :ivar unknown_claim: called with the operation id of a claim that another scheduler may have
        assumed, and that is to be forgotten.
    """

    scheduler: HostSelector
    count_room: Callable[[RequestSpec, str | None], FleetFlavor]
    spec_of: Callable[[str], RequestSpec]
    hosts: ReportReceiver
    aggregates: AggregateStore
    services: Services
    pong: Callable[[], SchedulerPong]
    not_ready: Callable[[], RtAgentError | None]
    unknown_claim: Callable[[str], None]
