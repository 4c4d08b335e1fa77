"""The methods of a scheduler for host aggregates and for the services of hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from rtagent.model.base import Document, Entries, Name, Text, Uuid, Value
from rtagent.model.node import Aggregate
from rtagent.ports import Service
from rtagent.rpc.method import rpc_method
from rtagent.rpc.roles import OPERATOR, READER, SCHEDULER

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


class AggregateStore(Protocol):
    """What keeps the aggregates, see `rtagent.service.kept_records.KeptAggregates`."""

    def list(self) -> tuple[Aggregate, ...]:
        """Return all aggregates, by name."""
        ...

    def create(self, name: str, metadata: Mapping[str, str], uuid: str) -> Aggregate:
        """Create an aggregate without hosts."""
        ...

    def set(
        self, aggregate: str, metadata: Mapping[str, str | None], name: str | None = None
    ) -> Aggregate:
        """Change name and metadata."""
        ...

    def add_host(self, aggregate: str, host: str) -> Aggregate:
        """Add a host."""
        ...

    def remove_host(self, aggregate: str, host: str) -> Aggregate:
        """Remove a host."""
        ...

    def delete(self, aggregate: str) -> Aggregate:
        """Delete an aggregate without hosts."""
        ...

    def reread(self) -> None:
        """Read the aggregates again."""
        ...


class AggregateEndpoint:
    """Serves the methods for host aggregates."""

    def __init__(self, store: AggregateStore) -> None:
        self._store = store

    @rpc_method(READER, errors=STORE_ERRORS, slow=True)
    def get_aggregates(self, arguments: NoArguments) -> Aggregates:
        """Return all aggregates, by name."""
        return Aggregates(aggregates=self._store.list())

    @rpc_method(
        OPERATOR,
        errors=("AggregateNameExists", *STORE_ERRORS),
        by_position=("metadata",),
        slow=True,
    )
    def create_aggregate(self, arguments: CreateAggregate) -> Aggregate:
        """Create an aggregate without hosts."""
        return self._store.create(arguments.name, arguments.metadata, arguments.uuid)

    @rpc_method(OPERATOR, errors=("AggregateNameExists", "ZoneConflict", *CHANGE_ERRORS), slow=True)
    def set_aggregate(self, arguments: SetAggregate) -> Aggregate:
        """Change the name and the metadata of an aggregate."""
        return self._store.set(arguments.aggregate, arguments.metadata, arguments.name)

    @rpc_method(OPERATOR, errors=("AggregateHostExists", "ZoneConflict", *CHANGE_ERRORS), slow=True)
    def add_host_to_aggregate(self, arguments: AggregateHost) -> Aggregate:
        """Add a host to an aggregate. It need not have an agent yet."""
        return self._store.add_host(arguments.aggregate, arguments.host)

    @rpc_method(OPERATOR, errors=("AggregateHostNotFound", *CHANGE_ERRORS), slow=True)
    def remove_host_from_aggregate(self, arguments: AggregateHost) -> Aggregate:
        """Remove a host from an aggregate."""
        return self._store.remove_host(arguments.aggregate, arguments.host)

    @rpc_method(OPERATOR, errors=("AggregateNotEmpty", *CHANGE_ERRORS), slow=True)
    def delete_aggregate(self, arguments: DeleteAggregate) -> Aggregate:
        """Delete an aggregate that has no hosts. The reply is what it was."""
        return self._store.delete(arguments.aggregate)

    @rpc_method(SCHEDULER, cast=True)
    def update_aggregates(self, arguments: NoArguments) -> None:
        """Read the aggregates and the services again: another scheduler has changed them in the
        database that the schedulers share."""
        self._store.reread()


#: Errors of the methods for services.
SERVICE_ERRORS = ("HostNotFound", "StoreUnavailable")


class GetService(Document, frozen=True, kw_only=True):
    """:ivar host: the name of a service host."""

    host: Name


class ForceDownService(Document, frozen=True, kw_only=True):
    """:ivar host: the name of a service host. :ivar forced_down: False: no longer."""

    host: Name
    forced_down: bool


class Services(Protocol):
    """What keeps the services, see `rtagent.service.kept_records.KeptServices`."""

    def get(self, host: str) -> Service:
        """Return the service of a host."""
        ...

    def force_down(self, host: str, forced_down: bool) -> Service:
        """Force the service of a host down, or no longer."""
        ...


class ServiceEndpoint:
    """Serves the methods."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @rpc_method(READER, errors=SERVICE_ERRORS, slow=True)
    def get_service(self, arguments: GetService) -> Service:
        """Return the record of a host's service, as the scheduler's database has it."""
        return self._services.get(arguments.host)

    @rpc_method(OPERATOR, errors=SERVICE_ERRORS, slow=True)
    def force_down_service(self, arguments: ForceDownService) -> Service:
        """Record that a host is down, whatever its agent reports: no scheduler selects it, and a
        conductor may evacuate its servers. Or record that it no longer is."""
        return self._services.force_down(arguments.host, arguments.forced_down)
