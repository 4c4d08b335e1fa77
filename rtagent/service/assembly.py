"""Assembly: which concrete adapter stands behind each port."""

from __future__ import annotations

import os
from collections.abc import Callable

from oslo_config import cfg

from rtagent.api.address import parse
from rtagent.conf import libraries
from rtagent.conf import settings as judging
from rtagent.conf.reading import note
from rtagent.conf.settings import Settings
from rtagent.db import failpoints, migrate
from rtagent.db.engine import open_engine
from rtagent.db.failpoints import Failpoint, FailpointStore
from rtagent.db.registry import SqlServiceRegistry
from rtagent.db.store import SqlStore
from rtagent.errors import ConfigError, RtAgentError
from rtagent.model.base import Value
from rtagent.placement import loading
from rtagent.ports import CpuPower, Hypervisor, PlacementAPI, Reporter, ServiceRegistry, Store
from rtagent.rpc.transport import get_transport
from rtagent.virt import power
from rtagent.virt.libvirt.hypervisor import LibvirtHypervisor


class Database(Value, frozen=True, kw_only=True):
    """:ivar store: claims. :ivar registry: heartbeats. :ivar close: lets go of every connection."""

    store: Store
    registry: ServiceRegistry
    close: Callable[[], None]


def database(settings: Settings) -> Database:
    """The database, its schema that of the code; an empty embedded one is made.

    :raises SchemaMismatch: StoreUnavailable:
    """
    engine = open_engine(settings.database.connection, settings.database.operation_timeout)
    try:
        migrate.ready(engine)
    except RtAgentError:
        engine.dispose()
        raise
    store: Store
    if named := os.environ.get(failpoints.VARIABLE):  # for the tests of crashes
        failpoint = Failpoint.parse(named)
        store = FailpointStore(SqlStore(engine, failpoint.passed), failpoint)
    else:
        store = SqlStore(engine)
    return Database(store=store, registry=SqlServiceRegistry(engine), close=engine.dispose)


def hypervisor(settings: Settings, reporter: Reporter) -> Hypervisor:
    """Libvirt; not connected yet."""
    return LibvirtHypervisor(
        settings.libvirt.uri,
        settings.default.instances_path,
        call_timeout=settings.libvirt.call_timeout,
        reporter=reporter,
    )


def cpu_power(settings: Settings) -> CpuPower:
    """By the strategy that is chosen."""
    options = settings.libvirt
    return power.strategy(
        options.cpu_power_management_strategy,
        options.cpu_power_governor_low,
        options.cpu_power_governor_high,
    )


def placement(conf: cfg.ConfigOpts) -> PlacementAPI | None:
    """Placement, or None when nothing is to be published. :raises ConfigError:"""
    return loading.load(conf)


def checked(conf: cfg.ConfigOpts) -> Settings:
    """The settings, and the proof that every adapter accepts its part of the configuration.

    Nothing is connected and nothing is written.

    :raises ExceptionGroup: of `ConfigError`: every mistake.
    """
    settings, mistakes = judging.judge(conf)
    libraries.judge(conf, mistakes)
    for accept in (
        lambda: parse(settings.api.address),
        lambda: open_engine(settings.database.connection, 1),
        lambda: placement(conf),
        lambda: get_transport(conf).cleanup(),
    ):
        try:
            accept()
        except ConfigError as error:
            note(mistakes, error)
        except cfg.Error:  # an option of a library cannot be read, which was noted above
            continue
    judging.refuse(mistakes)
    return settings
