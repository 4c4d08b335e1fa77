"""Assembly: create the concrete adapters of the ports."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import oslo_messaging
from oslo_config import cfg

from rtagent.conf.settings import Settings
from rtagent.db import durability, migrate
from rtagent.db.engine import open_engine
from rtagent.db.event_rows import SqlEventLog
from rtagent.db.node_rows import NodeMetrics
from rtagent.db.registry import SqlServiceRegistry
from rtagent.db.restore import check_files
from rtagent.db.store import SqlStore
from rtagent.db.transaction import errors_of
from rtagent.errors import ConfigError, RtAgentError
from rtagent.model.base import Value
from rtagent.model.metric import Metric
from rtagent.placement import loading
from rtagent.placement.client import HttpPlacement
from rtagent.ports import CpuPower, EventLog, Hypervisor, Reporter, ServiceRegistry, Store
from rtagent.rpc import SCHEDULER, roles
from rtagent.rpc.casts import BoundedCasts
from rtagent.rpc.notifier import EventSender, event_sender
from rtagent.virt import power
from rtagent.virt.libvirt.hostfile import host_file
from rtagent.virt.libvirt.hypervisor import LibvirtHypervisor
from rtagent.virt.libvirt.storage import Ndctl


class NodeDatabase(Value, frozen=True, kw_only=True):
    """:ivar store: claims. :ivar registry: heartbeats. :ivar events: recorded events.
    :ivar write_metrics: see `Monitors`. :ivar sql_errors: failed transactions by kind.
    :ivar close: closes every connection.
    :ivar faults: returns what makes the database lose committed claims, or "".
    """

    store: Store
    registry: ServiceRegistry
    events: EventLog
    write_metrics: Callable[[str, int, Sequence[Metric]], None]
    sql_errors: Callable[[], Mapping[str, int]]
    faults: Callable[[], str]
    close: Callable[[], None]


class Adapters(Value, frozen=True, kw_only=True):
    """The adapters of a node agent.

    :ivar placement: None if nothing is published.
    :ivar schedulers: for the thread that reports to them.
    :ivar notifications: for the thread that publishes events; None: it publishes nothing.
    """

    hypervisor: Hypervisor
    database: NodeDatabase
    placement: HttpPlacement | None
    schedulers: BoundedCasts
    notifications: EventSender | None
    cpu_power: CpuPower


def database(settings: Settings) -> NodeDatabase:
    """Open the database. Create the schema if it is an empty embedded database.

    :raises StoreDamaged: its files are damaged.
    :raises NotDurable: the database may lose what is committed, and the settings forbid that.
    :raises SchemaMismatch: the schema is not that of this release. :raises StoreUnavailable:
    """
    options = settings.database
    engine = open_engine(
        options.connection, options.operation_timeout, require_durability=options.require_durability
    )
    try:
        check_files(engine)
        if options.require_durability:
            durability.require(engine)
        migrate.ready(engine)
    except RtAgentError:
        engine.dispose()
        raise
    return NodeDatabase(
        store=SqlStore(engine, events_kept=settings.events.kept),
        registry=SqlServiceRegistry(engine),
        events=SqlEventLog(engine),
        write_metrics=NodeMetrics(engine).write,
        sql_errors=errors_of(engine).counts,
        faults=partial(durability.faults, engine),
        close=engine.dispose,
    )


def hypervisor(settings: Settings, reporter: Reporter) -> Hypervisor:
    """Return the libvirt adapter. It is not connected yet.

    :raises ConfigError: persistent memory is configured, and nothing can list it.
    """
    configured, pmem = settings.libvirt.pmem_namespaces, Ndctl()
    if configured and host_file(settings.libvirt.uri) is None and not pmem.installed:
        rule = "needs the command ndctl: install its package, or unset the option"
        value = ", ".join(configured)
        raise ConfigError(group="libvirt", option="pmem_namespaces", value=value, rule=rule)
    return LibvirtHypervisor(
        settings.libvirt.uri,
        settings.default.instances_path,
        call_timeout=settings.libvirt.call_timeout,
        reporter=reporter,
        pmem=pmem,
    )


def adapters(
    conf: cfg.ConfigOpts,
    settings: Settings,
    hypervisor: Hypervisor,
    database: NodeDatabase,
    transport: oslo_messaging.RPCTransport,
) -> Adapters:
    """Return the adapters of a node agent. They are not connected yet. :raises ConfigError:"""
    options = settings.libvirt
    return Adapters(
        hypervisor=hypervisor,
        database=database,
        placement=loading.load(conf),
        schedulers=BoundedCasts(transport, SCHEDULER, roles.AGENT),
        notifications=event_sender(conf, settings.default.host),
        cpu_power=power.strategy(
            options.cpu_power_management_strategy,
            options.cpu_power_governor_low,
            options.cpu_power_governor_high,
        ),
    )
