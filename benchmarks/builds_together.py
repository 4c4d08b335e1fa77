"""Builds of several callers at the same time."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from oslo_config import cfg

from benchmarks import agents, floors
from benchmarks.bench import CONTEXT, Bench, calls_per_second, p50_ms, seconds_each
from benchmarks.figure import Figure
from benchmarks.schedulers import CALLS, CLOCK, SPEC, Used, candidates, placement_ms, server
from rtagent.conductor.conductor import Conductor
from rtagent.conductor.opening import RpcAgents, RpcScheduler, open_records
from rtagent.conductor.ports import NoHooks
from rtagent.conductor.run import ConductorOptions, Outside
from rtagent.conf import load
from rtagent.conf.load import read_options
from rtagent.model.guest import GuestState
from tests.servers import MariaDB, Placement
from tests.servers.daemon import wait_until

CALLERS = 8
#: Builds of each caller.
BUILDS = 20


def measure(bench: Bench) -> Iterator[Figure]:
    """builds_together: builds each second of eight callers, over RabbitMQ and with Placement, whose
    database is MariaDB. No guest is defined. The floor is the rate of the calls and the requests to
    Placement of one build after the other, as in ``schedule_claim_start``. The CPU time of each
    process for one build is printed."""
    mariadb, placement = bench.keep(MariaDB()), Placement()
    placement.use(mariadb.create_database())
    bench.keep(placement)
    access: dict[str, object] = {
        "auth_type": "admin_token",
        "endpoint": placement.url,
        "token": placement.token,
    }
    agent = agents.daemon(bench, bench.directory(), placement=access).start().wait_ready()
    scheduler = server(bench, {"placement": access})
    wait_until(lambda: scheduler.metrics()["rtagent_scheduler_hosts"] == 1, 60)
    wait_until(lambda: bool(candidates(placement)), 60)
    conf = load.parse(cfg.ConfigOpts(), ["--config-file", str(scheduler.config_file)], "bench")
    outside = Outside(
        scheduler=RpcScheduler(bench.transport, CONTEXT, 60),
        agents=RpcAgents(bench.transport, CONTEXT, 60),
        enactor=NoGuests(),
        hooks=NoHooks(),
    )
    records = open_records(read_options(conf))
    conductor = Conductor(records, outside, ConductorOptions(), CLOCK, time.sleep)
    used = Used(
        agent=agent.pid,
        scheduler=scheduler.pid,
        Placement=placement.pid,
        MariaDB=mariadb.pid,
        broker=bench.rabbitmq.pid,
        conductor=os.getpid(),
    )

    def build() -> None:
        conductor.build(SPEC)

    builds = bench.rounds(BUILDS)
    seconds_each(build, builds)
    used.begin()
    rate = calls_per_second(build, CALLERS, builds)
    print(used.table(CALLERS * builds))
    floor = CALLS * p50_ms(floors.echo(bench), bench.rounds(200)) + placement_ms(bench, placement)
    scheduler.terminate()
    agent.terminate()
    yield Figure(
        name="builds_together",
        value=rate,
        unit="builds/s",
        floor=1000 / floor,
        target=1.0,
        at_least=True,
    )


class NoGuests:
    """Hosts that take orders and run nothing."""

    def state(self, host: str, server_uuid: str) -> GuestState:
        return "absent"

    def define(self, *_order: Any, **named: Any) -> None:
        """Take an order, as the other ones: make its check and nothing else."""
        named["check"]()

    start = stop = undefine = live_migrate = define
