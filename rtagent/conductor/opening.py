"""Open a conductor as a configuration says: records, RPC to agents and schedulers, libvirt."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import oslo_messaging
from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.conductor.conductor import Conductor
from rtagent.conductor.engine import Listener
from rtagent.conductor.errors import InvalidReply
from rtagent.conductor.ports import Allocations, Hooks, NoHooks
from rtagent.conductor.run import ConductorOptions, Outside
from rtagent.conf.settings import Settings
from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.server_rows import SqlServerStore
from rtagent.errors import AgentUnreachable
from rtagent.model.base import Converter, Value
from rtagent.model.policy import ManageAllocations
from rtagent.model.server import RequestSpec, Selections
from rtagent.placement import loading
from rtagent.placement.loading import ConductorPlacement
from rtagent.ports import Clock
from rtagent.rpc.client import AgentAPI, SchedulerAPI
from rtagent.rpc.transport import get_transport
from rtagent.virt.enactor.enactor import LibvirtEnactor

REMEDY = "is it running, and the message broker?"


class RpcAgents:
    """The agents of all hosts. Thread-safe. It makes each call once."""

    def __init__(
        self, transport: oslo_messaging.RPCTransport, context: RequestContext, timeout: float
    ) -> None:
        """:param timeout: seconds for a reply."""
        self._transport, self._context, self._timeout = transport, context, timeout
        self._apis: dict[tuple[str, str | None], AgentAPI] = {}

    def call(self, host: str, node_uuid: str | None, method: str, **arguments: Any) -> Any:
        """Call a method of an agent, and return its reply.

        :raises AgentUnreachable: there is no answer. :raises RtAgentError: the agent's error.
        """
        api = self._apis.get((host, node_uuid))
        if api is None:
            api = AgentAPI(
                self._transport, host, node_uuid=node_uuid, timeout=self._timeout, attempts=1
            )
            self._apis[host, node_uuid] = api
        return _answered(
            f"the agent of {host}", lambda: getattr(api, method)(self._context, **arguments)
        )


class RpcScheduler:
    """The schedulers. Thread-safe. It makes each call once."""

    def __init__(
        self, transport: oslo_messaging.RPCTransport, context: RequestContext, timeout: float
    ) -> None:
        """:param timeout: seconds for a reply."""
        self._context = context
        self._api = SchedulerAPI(transport, timeout=timeout, attempts=1)

    def select_destinations(
        self, spec: RequestSpec, instance_uuids: Sequence[str], *, alternates: bool
    ) -> Sequence[Selections]:
        """Select a host for each instance.

        :raises AgentUnreachable: no scheduler answers. :raises NoValidHost:
        :raises InvalidReply: the scheduler is of another version.
        """
        reply = _answered(
            "the scheduler",
            lambda: self._api.select_destinations(
                self._context, spec, list(instance_uuids), alternates=alternates
            ),
        )
        return selections_of(reply, instance_uuids)

    def is_forced_down(self, host: str) -> bool:
        """Return whether an operator has forced a service host down.

        :raises AgentUnreachable: there is no answer. :raises RtAgentError: the scheduler's error.
        """
        reply = _answered("the scheduler", lambda: self._api.get_service(self._context, host=host))
        return bool(reply["forced_down"])

    def forget_claim(self, operation_id: str) -> None:
        """Report that no claim will be made with a selection's operation id."""
        _answered("the scheduler", lambda: self._api.forget_claim(self._context, operation_id))


class _Reply(Value, frozen=True):
    selections: tuple[Selections, ...]


_replies = Converter(_Reply, strict=False, str_keys=True)


def selections_of(reply: object, instance_uuids: Sequence[str]) -> Sequence[Selections]:
    """Return the selections of a scheduler's reply.

    :raises InvalidReply: it does not have its form, or is about other instances.
    """
    try:
        found = _replies.convert(reply).selections
    except msgspec.ValidationError as error:
        why = str(error)
    else:
        selected = [each.instance_uuid for each in found]
        if selected == list(instance_uuids):
            return found
        why = f"it selects for {', '.join(selected) or 'no instance'}"
    raise InvalidReply(where="the scheduler", method="select_destinations", why=why)


def _answered(where: str, call: Callable[[], Any]) -> Any:
    """Make a call. :raises AgentUnreachable: there is no answer."""
    try:
        return call()
    except oslo_messaging.MessagingTimeout as error:
        raise AgentUnreachable(where=where, why="no reply in time", remedy=REMEDY) from error
    except oslo_messaging.MessagingException as error:
        why = str(error).partition("\n")[0]
        raise AgentUnreachable(where=where, why=why, remedy=REMEDY) from error


def open_records(settings: Settings) -> SqlServerStore:
    """Open the database of servers and operations.

    :raises SchemaMismatch: StoreUnavailable: ConfigError:
    """
    engine = open_engine(settings.conductor.connection, settings.database.operation_timeout)
    migrate.ready(engine)
    return SqlServerStore(engine)


@contextmanager
def open_conductor(
    conf: cfg.ConfigOpts,
    settings: Settings,
    *,
    clock: Clock,
    context: RequestContext,
    timeout: float,
    listener: Listener,
    hooks: Hooks | None = None,
) -> Iterator[Conductor]:
    """Open a conductor, for the length of a block.

    :param conf: the parsed configuration, for the message bus. :param settings: read from it.
    :param context: for calls over RPC. :param timeout: seconds for one reply.
    :param listener: is called before each step.
    :param hooks: the caller's disks and networks; None: there are none.
    """
    store, transport = open_records(settings), get_transport(conf)
    enactor = _enactor(settings)
    try:
        outside = Outside(
            scheduler=RpcScheduler(transport, context, timeout),
            agents=RpcAgents(transport, context, timeout),
            enactor=enactor,
            hooks=hooks or NoHooks(),
            allocations=_allocations(conf, settings),
        )
        yield Conductor(store, outside, _options(settings), clock, time.sleep, listener)
    finally:
        enactor.close()
        transport.cleanup()


def _options(settings: Settings) -> ConductorOptions:
    ours = settings.conductor
    return ConductorOptions(
        max_attempts=ours.max_attempts,
        host_timeout=ours.host_timeout,
        operation_timeout=ours.operation_timeout,
        lease_renew_interval=ours.lease_renew_interval,
        takeover_time=ours.takeover_time,
        allow_resize_to_same_host=settings.default.allow_resize_to_same_host,
    )


def _allocations(conf: cfg.ConfigOpts, settings: Settings) -> Allocations | None:
    """Return what writes allocations: nothing without Placement, or if the agents write them."""
    connect = loading.connector(conf)
    agents_write = settings.placement_policy.manage_allocations is not ManageAllocations.NO
    return None if connect is None or agents_write else ConductorPlacement(connect)


def _enactor(settings: Settings) -> LibvirtEnactor:
    ours = settings.conductor
    return LibvirtEnactor(
        ours.host_uri,
        call_timeout=ours.host_timeout,
        shutdown_timeout=ours.shutdown_timeout,
        migration_timeout=ours.migration_timeout,
        migration_uri=ours.migration_uri,
    )
