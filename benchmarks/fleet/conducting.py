"""The conductors of the callers of a fleet."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from oslo_config import cfg
from oslo_context.context import RequestContext

from benchmarks.fleet.enactor import FleetEnactor
from benchmarks.fleet.fleet import Fleet
from benchmarks.fleet.host import config_text
from rtagent.conductor.conductor import Conductor
from rtagent.conductor.engine import Listener
from rtagent.conductor.opening import RpcAgents, RpcScheduler
from rtagent.conductor.ports import NoHooks
from rtagent.conductor.run import ConductorOptions, Outside
from rtagent.conf import load
from rtagent.db.engine import open_engine
from rtagent.db.server_rows import SqlServerStore
from rtagent.embedded import SystemClock
from rtagent.placement import loading
from rtagent.placement.client import HttpPlacement
from rtagent.placement.loading import ConductorPlacement
from rtagent.rpc.transport import get_transport

#: Seconds for one reply.
TIMEOUT = 60.0


class MakeConductor(Protocol):
    """Makes a conductor for one caller. The conductors share their connections."""

    def __call__(self, listener: Listener) -> Conductor: ...


@contextmanager
def conducting(fleet: Fleet) -> Iterator[MakeConductor]:
    """Open what conductors need, for the length of a block."""
    file = fleet.directory / "conductor.conf"
    default = {"transport_url": fleet.places.broker, "state_path": fleet.directory}
    file.write_text(config_text({"DEFAULT": default, "placement": fleet.places.placement}))
    conf = load.parse(cfg.ConfigOpts(), ["--config-file", str(file)], "conductor")
    engine, transport = open_engine(fleet.places.database, 30), get_transport(conf)
    context = RequestContext(
        user_id="fleet", project_id="fleet", roles=["conductor"], overwrite=False
    )

    def connect() -> HttpPlacement:
        client = loading.load(conf)
        assert client is not None
        return client

    outside = Outside(
        scheduler=RpcScheduler(transport, context, TIMEOUT),
        agents=RpcAgents(transport, context, TIMEOUT),
        enactor=FleetEnactor(fleet),
        hooks=NoHooks(),
        allocations=ConductorPlacement(connect),
    )

    def make(listener: Listener) -> Conductor:
        store, options = SqlServerStore(engine), ConductorOptions()
        return Conductor(store, outside, options, SystemClock(), time.sleep, listener)

    try:
        yield make
    finally:
        transport.cleanup()
        engine.dispose()
