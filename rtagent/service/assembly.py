"""Assembly: create the concrete adapters of the ports."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from oslo_config import cfg

from rtagent.conf.settings import Settings
from rtagent.db import durability, failpoints, migrate
from rtagent.db.damaged_files import check_files, set_aside
from rtagent.db.engine import open_engine
from rtagent.db.failpoints import Failpoint, FailpointStore
from rtagent.db.registry import SqlServiceRegistry
from rtagent.db.store import SqlStore
from rtagent.errors import ConfigError, RtAgentError
from rtagent.model.base import Value
from rtagent.placement import loading
from rtagent.placement.api import PlacementAPI
from rtagent.ports import CpuPower, Hypervisor, Reporter, ServiceRegistry, Store
from rtagent.virt import power
from rtagent.virt.libvirt.hostfile import host_file
from rtagent.virt.libvirt.hypervisor import LibvirtHypervisor
from rtagent.virt.ndctl import Ndctl


class Database(Value, frozen=True, kw_only=True):
    """:ivar store: claims. :ivar registry: heartbeats. :ivar close: closes every connection.
    :ivar faults: returns what makes the database lose committed claims, or "".
    """

    store: Store
    registry: ServiceRegistry
    faults: Callable[[], str]
    close: Callable[[], None]


class Adapters(Value, frozen=True, kw_only=True):
    """The adapters of a node agent.

    :ivar placement: None if nothing is published. :ivar allocation_audits: the same for the thread
        that audits allocations. :ivar allocation_calls: for the one that deletes them for callers.
        :ivar allocation_writes: for the one that writes them.
    """

    hypervisor: Hypervisor
    database: Database
    placement: PlacementAPI | None
    allocation_audits: PlacementAPI | None
    allocation_calls: PlacementAPI | None
    allocation_writes: PlacementAPI | None
    cpu_power: CpuPower


def database(settings: Settings) -> Database:
    """Open the database. Create the schema if it is an empty embedded database.

    :raises StoreDamaged: its files are damaged.
    :raises NotDurable: the database may lose what is committed, and the settings forbid that.
    :raises SchemaMismatch: the schema is not that of this release. :raises StoreUnavailable:
    """
    options = settings.database
    engine = open_engine(
        options.connection,
        options.operation_timeout,
        require_durability=options.require_durability,
    )
    try:
        check_files(engine)
        if options.require_durability:
            durability.require(engine)
        migrate.ready(engine)
    except RtAgentError:
        engine.dispose()
        raise
    store: Store
    if named := os.environ.get(failpoints.VARIABLE):  # for the crash tests
        failpoint = Failpoint.parse(named)
        store = FailpointStore(SqlStore(engine, failpoint.passed), failpoint)
    else:
        store = SqlStore(engine)
    return Database(
        store=store,
        registry=SqlServiceRegistry(engine),
        faults=partial(durability.faults, engine),
        close=engine.dispose,
    )


def set_database_aside(settings: Settings, now: datetime) -> Sequence[Path]:
    """Rename the files of an embedded database that is closed. Return the new names."""
    return set_aside(settings.database.connection, now)


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


def cpu_power(settings: Settings) -> CpuPower:
    """Return the configured strategy of CPU power management."""
    options = settings.libvirt
    return power.strategy(
        options.cpu_power_management_strategy,
        options.cpu_power_governor_low,
        options.cpu_power_governor_high,
    )


def placement(conf: cfg.ConfigOpts) -> PlacementAPI | None:
    """Return the client of Placement, or None if nothing is published. :raises ConfigError:"""
    return loading.load(conf)
