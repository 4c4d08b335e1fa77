"""ServedScheduler: what the methods of a scheduler use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol

from rtagent.errors import RtAgentError
from rtagent.model.base import Value
from rtagent.model.node import Aggregate
from rtagent.model.server import RequestSpec
from rtagent.ports import Service
from rtagent.scheduler.fleet_counts import FleetFlavor

if TYPE_CHECKING:  # a command that reads the methods' declarations selects nothing
    from rtagent.scheduler.host_manager import HostManager
    from rtagent.scheduler.select import Scheduler

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


class AggregateStore(Protocol):
    """What keeps the aggregates, see `rtagent.service.kept_records.KeptAggregates`."""

    def list(self) -> tuple[Aggregate, ...]:
        """Return all aggregates, by name."""

    def create(self, name: str, metadata: Mapping[str, str], uuid: str) -> Aggregate:
        """Create an aggregate without hosts."""

    def change(
        self,
        aggregate: str,
        rule: Callable[Concatenate[Aggregate, P], Aggregate],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> Aggregate:
        """Change an aggregate by a rule of `aggregate_rules`."""

    def delete(self, aggregate: str) -> Aggregate:
        """Delete an aggregate without hosts."""

    def reread(self) -> None:
        """Read the aggregates again."""


class Services(Protocol):
    """What keeps the services, see `rtagent.service.kept_records.KeptServices`."""

    def get(self, host: str) -> Service:
        """Return the service of a host."""

    def force_down(self, host: str, forced_down: bool) -> Service:
        """Force the service of a host down, or no longer."""


class ServedScheduler(Value, frozen=True, kw_only=True):
    """:ivar count_room: returns the room of a request, see `FleetCounts.of_request`.
    :ivar spec_of: returns the request of a flavor of the catalogue, see `FleetCounts.spec_of`.
    :ivar not_ready: returns the error that selections get now, or None.
    :ivar unknown_claim: called with the operation id of a claim that another scheduler may have
        assumed, and that is to be forgotten.
    """

    scheduler: Scheduler
    count_room: Callable[[RequestSpec, str | None], FleetFlavor]
    spec_of: Callable[[str], RequestSpec]
    hosts: HostManager
    aggregates: AggregateStore
    services: Services
    pong: Callable[[], SchedulerPong]
    not_ready: Callable[[], RtAgentError | None]
    unknown_claim: Callable[[str], None]
