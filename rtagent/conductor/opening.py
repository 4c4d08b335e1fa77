"""Open a conductor as a configuration describes it: records, RPC, and libvirt."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from oslo_config import cfg
from oslo_context.context import RequestContext

from rtagent.conductor.agents import RpcAgents, RpcScheduler
from rtagent.conductor.conductor import Conductor
from rtagent.conductor.engine import Listener
from rtagent.conductor.ports import Allocations, Hooks, NoHooks
from rtagent.conductor.run import ConductorOptions, Outside
from rtagent.conf.settings import Settings
from rtagent.db import migrate
from rtagent.db.engine import open_engine
from rtagent.db.server_rows import SqlServerStore
from rtagent.model.policy import ManageAllocations
from rtagent.placement import loading
from rtagent.placement.client import HttpPlacement
from rtagent.placement.loading import ConductorPlacement
from rtagent.ports import Clock
from rtagent.rpc.transport import get_transport
from rtagent.virt.enactor.enactor import LibvirtEnactor


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
    if loading.load(conf) is None:
        return None
    if settings.placement_policy.manage_allocations is not ManageAllocations.NO:
        return None

    def connect() -> HttpPlacement:
        client = loading.load(conf)
        assert client is not None
        return client

    return ConductorPlacement(connect)


def _enactor(settings: Settings) -> LibvirtEnactor:
    ours = settings.conductor
    return LibvirtEnactor(
        ours.host_uri,
        call_timeout=ours.host_timeout,
        shutdown_timeout=ours.shutdown_timeout,
        migration_timeout=ours.migration_timeout,
        migration_uri=ours.migration_uri,
    )
