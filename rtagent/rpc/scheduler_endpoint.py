"""The methods of a scheduler (selections, host aggregates, services, reports of agents, ping),
their arguments, and what they use.

Reports are cast to every scheduler, and have no reply. A malformed report is set aside: it is
logged, counts in ``rtagent_rpc_total``, and its host is not selected until a good one comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Literal,
    NamedTuple,
    ParamSpec,
    Protocol,
)

from msgspec import Meta

from rtagent.capacity.advice import Advice
from rtagent.errors import InvalidRequest, RtAgentError
from rtagent.model.base import Document, Entries, Name, Text, Uuid, Value
from rtagent.model.node import Aggregate
from rtagent.model.server import RequestSpec, Selections
from rtagent.ports import Service
from rtagent.rpc.method import FLAVOR_ERRORS, rpc_method
from rtagent.rpc.roles import AGENT, ANY, CONDUCTOR, OPERATOR, READER, SCHEDULER
from rtagent.scheduler.aggregate_rules import with_host, with_metadata, without_host
from rtagent.scheduler.explanation import Explanation
from rtagent.scheduler.fleet_counts import FleetFlavor
from rtagent.scheduler.report_documents import (
    DeleteInstanceInfo,
    InstanceMessage,
    SyncInstanceInfo,
    UpdateHostState,
    UpdateInstanceInfo,
    instances_from,
    is_uuid,
    report_from,
)
from rtagent.scheduler.tracked_host import INSTANCES, STATE

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


#: How many requests are served at once. Others are refused with `TooManyRequests`, so that reports
#: and reads have threads while requests wait for Placement.
REQUESTS_AT_ONCE = 40

#: How many searches for advice run at once: each takes up to 10 s of CPU time.
SEARCHES_AT_ONCE = 2

#: Errors that a request may cause, in addition to `InvalidRequest`.
SPEC_ERRORS = ("InvalidFlavor", *FLAVOR_ERRORS)
#: Errors of a request to Placement.
PLACEMENT_ERRORS = ("PlacementError", "PlacementUnavailable")


class SelectDestinations(Document, frozen=True, kw_only=True):
    """The arguments of `select_destinations`.

    :ivar instance_uuids: of equal instances; each gets a host.
    :ivar alternates: add hosts to try if the selected one refuses.
    :ivar claim: count the instances on their hosts until the hosts' reports do.
    """

    request_spec: RequestSpec
    instance_uuids: Annotated[tuple[Uuid, ...], Meta(min_length=1, max_length=1000)]
    alternates: bool = False
    claim: bool = True


class Explain(Document, frozen=True, kw_only=True):
    """The arguments of `explain`. :ivar instance_uuid: of a move: its claims are its own."""

    request_spec: RequestSpec
    instance_uuid: Uuid | None = None


class CountRoom(Document, frozen=True, kw_only=True):
    """The arguments of `count_room`. :ivar by: adds the room by host, zone or aggregate."""

    request_spec: RequestSpec
    by: Literal["host", "zone", "aggregate"] | None = None


class Advise(Document, frozen=True, kw_only=True):
    """The arguments of `advise`: a request or a flavor.

    :ivar flavor: its name in the catalogue of the fleet.
    :ivar count: the number of instances that there is to be room for.
    """

    request_spec: RequestSpec | None = None
    flavor: Name | None = None
    count: Annotated[int, Meta(ge=1, le=1000)] = 1


class ForgetClaim(Document, frozen=True, kw_only=True):
    """The arguments of `forget_claim`. :ivar operation_id: that of the selection."""

    operation_id: Uuid


class Selected(Value, frozen=True, kw_only=True):
    """:ivar selections: one for each instance, in their order."""

    selections: tuple[Selections, ...]


@rpc_method(
    CONDUCTOR,
    errors=(
        "NoValidHost",
        "SchedulerNotReady",
        "SchedulingTimedOut",
        "ConsumerHasAllocations",
        *SPEC_ERRORS,
        *PLACEMENT_ERRORS,
    ),
    by_position=("alternates", "claim"),
    slow=True,
    at_once=REQUESTS_AT_ONCE,
)
def select_destinations(served: ServedScheduler, arguments: SelectDestinations) -> Selected:
    """Select a host for each instance, and alternates for it. Make the claim at the host with the
    operation id of the selection. The scheduler counts the claim there until the host's report has
    it, or ``[scheduler] assume_timeout`` is over."""
    if (error := served.not_ready()) is not None:
        raise error
    selections = served.scheduler.select_destinations(
        arguments.request_spec, arguments.instance_uuids, arguments.alternates, arguments.claim
    )
    return Selected(selections=selections)


@rpc_method(
    READER, errors=(*SPEC_ERRORS, *PLACEMENT_ERRORS), by_position=("instance_uuid",), slow=True
)
def explain(served: ServedScheduler, arguments: Explain) -> Explanation:
    """Return the result of every filter and weigher for every host. Nothing is selected."""
    if arguments.instance_uuid is None:
        return served.scheduler.explain(arguments.request_spec)
    return served.scheduler.explain(arguments.request_spec, arguments.instance_uuid)


@rpc_method(READER, errors=("NoValidHost", *SPEC_ERRORS), by_position=("by",), slow=True)
def count_room(served: ServedScheduler, arguments: CountRoom) -> FleetFlavor:
    """Return how many further builds of the request would be selected and granted, one after
    another. Placement is not asked, and nothing is selected. If the hosts cannot all be counted in
    time, ``pending`` is the number of the others: a further call finds them counted."""
    return served.count_room(arguments.request_spec, arguments.by)


@rpc_method(
    READER,
    errors=("FlavorNotFound", *SPEC_ERRORS),
    by_position=("request_spec", "flavor", "count"),
    slow=True,
    at_once=SEARCHES_AT_ONCE,
)
def advise(served: ServedScheduler, arguments: Advise) -> Advice:
    """Return the cheapest moves of guests, at most three, after which so many instances find a
    host; or why nothing helps. Nothing is moved."""
    spec, flavor = arguments.request_spec, arguments.flavor
    if (spec is None) is (flavor is None):
        raise InvalidRequest.at("advise", "$", "must have either request_spec or flavor")
    return served.scheduler.advise(spec or served.spec_of(flavor or ""), arguments.count)


@rpc_method(CONDUCTOR)
def forget_claim(served: ServedScheduler, arguments: ForgetClaim) -> None:
    """Forget an assumed claim: its host has refused it, or the build was given up.

    Any scheduler takes the call. One that does not know the operation id passes it on to the
    others."""
    if not served.scheduler.forget_claim(arguments.operation_id):
        served.unknown_claim(arguments.operation_id)


@rpc_method(SCHEDULER, cast=True)
def drop_assumed_claim(served: ServedScheduler, arguments: ForgetClaim) -> None:
    """Forget an assumed claim, at the request of a scheduler that does not know it. An unknown
    operation id is ignored."""
    served.scheduler.forget_claim(arguments.operation_id)


#: Errors of a change of an aggregate.
STORE_ERRORS = ("StoreUnavailable",)
CHANGE_ERRORS = ("AggregateNotFound", *STORE_ERRORS)


class NoArguments(Document, frozen=True, kw_only=True):
    """A method without arguments."""


class CreateAggregate(Document, frozen=True, kw_only=True):
    """The arguments of `create_aggregate`.

    :ivar uuid: chosen by the caller, and the same in every repetition of the call.
    """

    uuid: Uuid
    name: Name
    metadata: Entries[Name, Text] = {}


class _OneAggregate(Document, frozen=True, kw_only=True):
    """:ivar aggregate: its uuid or its name."""

    aggregate: Name


class SetAggregate(_OneAggregate, frozen=True, kw_only=True):
    """The arguments of `set_aggregate`.

    :ivar aggregate: its uuid or its name. :ivar name: the new name; null: it stays.
    :ivar metadata: null removes a key; keys that are not named stay.
    """

    name: Name | None = None
    metadata: Entries[Name, Text | None] = {}


class AggregateHost(_OneAggregate, frozen=True, kw_only=True):
    """:ivar aggregate: its uuid or its name. :ivar host: the name of a service host."""

    host: Name


class DeleteAggregate(_OneAggregate, frozen=True, kw_only=True):
    """:ivar aggregate: its uuid or its name."""


class Aggregates(Value, frozen=True, kw_only=True):
    """:ivar aggregates: all of them, by name."""

    aggregates: tuple[Aggregate, ...]


@rpc_method(READER, errors=STORE_ERRORS, slow=True)
def get_aggregates(served: ServedScheduler, arguments: NoArguments) -> Aggregates:
    """Return all aggregates, by name."""
    return Aggregates(aggregates=served.aggregates.list())


@rpc_method(
    OPERATOR, errors=("AggregateNameExists", *STORE_ERRORS), by_position=("metadata",), slow=True
)
def create_aggregate(served: ServedScheduler, arguments: CreateAggregate) -> Aggregate:
    """Create an aggregate without hosts."""
    return served.aggregates.create(arguments.name, arguments.metadata, arguments.uuid)


@rpc_method(OPERATOR, errors=("AggregateNameExists", "ZoneConflict", *CHANGE_ERRORS), slow=True)
def set_aggregate(served: ServedScheduler, arguments: SetAggregate) -> Aggregate:
    """Change the name and the metadata of an aggregate."""
    metadata, name = arguments.metadata, arguments.name
    return served.aggregates.change(arguments.aggregate, with_metadata, metadata, name)


@rpc_method(OPERATOR, errors=("AggregateHostExists", "ZoneConflict", *CHANGE_ERRORS), slow=True)
def add_host_to_aggregate(served: ServedScheduler, arguments: AggregateHost) -> Aggregate:
    """Add a host to an aggregate. It need not have an agent yet."""
    return served.aggregates.change(arguments.aggregate, with_host, arguments.host)


@rpc_method(OPERATOR, errors=("AggregateHostNotFound", *CHANGE_ERRORS), slow=True)
def remove_host_from_aggregate(served: ServedScheduler, arguments: AggregateHost) -> Aggregate:
    """Remove a host from an aggregate."""
    return served.aggregates.change(arguments.aggregate, without_host, arguments.host)


@rpc_method(OPERATOR, errors=("AggregateNotEmpty", *CHANGE_ERRORS), slow=True)
def delete_aggregate(served: ServedScheduler, arguments: DeleteAggregate) -> Aggregate:
    """Delete an aggregate that has no hosts. The reply is what it was."""
    return served.aggregates.delete(arguments.aggregate)


@rpc_method(SCHEDULER, cast=True)
def update_aggregates(served: ServedScheduler, arguments: NoArguments) -> None:
    """Read the aggregates and the services again: another scheduler has changed them in the
    database that the schedulers share."""
    served.aggregates.reread()


#: Errors of the methods for services.
SERVICE_ERRORS = ("HostNotFound", "StoreUnavailable")


class GetService(Document, frozen=True, kw_only=True):
    """:ivar host: the name of a service host."""

    host: Name


class ForceDownService(Document, frozen=True, kw_only=True):
    """:ivar host: the name of a service host. :ivar forced_down: False: no longer."""

    host: Name
    forced_down: bool


@rpc_method(READER, errors=SERVICE_ERRORS, slow=True)
def get_service(served: ServedScheduler, arguments: GetService) -> Service:
    """Return the record of a host's service, as the scheduler's database has it."""
    return served.services.get(arguments.host)


@rpc_method(OPERATOR, errors=SERVICE_ERRORS, slow=True)
def force_down_service(served: ServedScheduler, arguments: ForceDownService) -> Service:
    """Record that a host is down, whatever its agent reports: no scheduler selects it, and a
    conductor may evacuate its servers. Or record that it no longer is."""
    return served.services.force_down(arguments.host, arguments.forced_down)


@rpc_method(ANY)
def ping(served: ServedScheduler, arguments: NoArguments) -> SchedulerPong:
    """Return the version, host and start of the scheduler that answers, how many hosts it knows,
    and the time of its clock. It never needs a signature."""
    return served.pong()


class Reported(NamedTuple):
    """What a message of an agent says of its sender. :ivar node_uuid: None: it is malformed."""

    host: object
    node_uuid: str | None
    epoch: int


def reported(arguments: Any) -> Reported | None:
    """Return what the arguments of a method say of their sender; None: it is no report."""
    if isinstance(arguments, InstanceMessage):
        return Reported(arguments.host, arguments.node_uuid, arguments.epoch)
    if not isinstance(arguments, UpdateHostState):
        return None
    node = arguments.report.get("node")
    node = node if isinstance(node, dict) else {}
    uuid, epoch = node.get("uuid"), arguments.report.get("epoch")
    return Reported(
        node.get("host"),
        uuid if isinstance(uuid, str) and is_uuid(uuid) else None,
        epoch if isinstance(epoch, int) else 0,
    )


@rpc_method(AGENT, cast=True)
def update_host_state(served: ServedScheduler, arguments: UpdateHostState) -> None:
    """Report the state of a host."""
    with _named(served, STATE, arguments):
        report = report_from(arguments.report)
    served.hosts.update_host_state(report)


@rpc_method(AGENT, cast=True)
def update_instance_info(served: ServedScheduler, arguments: UpdateInstanceInfo) -> None:
    """Report new and changed instances of a host."""
    _change(served, "update_instance_info", arguments, arguments.instances)


@rpc_method(AGENT, cast=True)
def delete_instance_info(served: ServedScheduler, arguments: DeleteInstanceInfo) -> None:
    """Report that an instance is no longer on a host."""
    _change(served, "delete_instance_info", arguments, None)


@rpc_method(AGENT, cast=True)
def sync_instance_info(served: ServedScheduler, arguments: SyncInstanceInfo) -> None:
    """Report the digest of all instances of a host, or the instances themselves."""
    _change(served, "sync_instance_info", arguments, arguments.instances)


def _change(
    served: ServedScheduler, method: str, message: InstanceMessage, packed: str | None
) -> None:
    with _named(served, INSTANCES, message):
        instances = None if packed is None else instances_from(method, packed)
    served.hosts.change_instances(message, instances)


@contextmanager
def _named(served: ServedScheduler, kind: str, arguments: Any) -> Iterator[None]:
    """Set the node aside if its message cannot be used. Its agent hears nothing of that."""
    try:
        yield
    except InvalidRequest as error:
        sender = reported(arguments)
        if sender is not None and sender.node_uuid and isinstance(sender.host, str):
            served.hosts.set_aside(sender.host, sender.node_uuid, kind, error.message)
        raise
