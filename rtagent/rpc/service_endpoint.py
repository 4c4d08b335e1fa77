"""The methods of a scheduler for the services of hosts, and their arguments."""

from __future__ import annotations

from typing import Protocol

from rtagent.model.base import Document, Name
from rtagent.ports import Service
from rtagent.rpc.method import rpc_method
from rtagent.rpc.roles import OPERATOR, READER

ERRORS = ("HostNotFound", "StoreUnavailable")


class GetService(Document, frozen=True, kw_only=True):
    """:ivar host: the name of a service host."""

    host: Name


class ForceDownService(Document, frozen=True, kw_only=True):
    """:ivar host: the name of a service host. :ivar forced_down: False: no longer."""

    host: Name
    forced_down: bool


class Services(Protocol):
    """What keeps the services, see `rtagent.service.scheduler_services.KeptServices`."""

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

    @rpc_method(READER, errors=ERRORS, slow=True)
    def get_service(self, arguments: GetService) -> Service:
        """Return the record of a host's service, as the scheduler's database has it."""
        return self._services.get(arguments.host)

    @rpc_method(OPERATOR, errors=ERRORS, slow=True)
    def force_down_service(self, arguments: ForceDownService) -> Service:
        """Record that a host is down, whatever its agent reports: no scheduler selects it, and a
        conductor may evacuate its servers. Or record that it no longer is."""
        return self._services.force_down(arguments.host, arguments.forced_down)
