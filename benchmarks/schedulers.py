"""rtagent-scheduler as a daemon: its memory, and a build from the selection to the start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from statistics import median
from typing import Any, cast

import psutil
from oslo_config import cfg

from benchmarks import agents, floors
from benchmarks.bench import CONTEXT, Bench, p50_ms, percentile
from benchmarks.figure import Figure
from benchmarks.scheduler_fleet import Fleet, view
from rtagent.conductor.opening import open_conductor
from rtagent.conf import load
from rtagent.conf.load import read_options
from rtagent.embedded import SystemClock
from rtagent.model.host_report import HostReport
from rtagent.model.request import Flavor
from rtagent.model.server import RequestSpec, ServerOperation
from rtagent.ports import NullReporter
from rtagent.rpc import SCHEDULER, roles
from rtagent.rpc.casts import BoundedCasts, Numbered, host_state, whole_list
from rtagent.rpc.client import SchedulerAPI
from rtagent.rpc.methods import SCHEDULER_API
from rtagent.rpc.scheduler_endpoint import SchedulerPong, ServedScheduler
from rtagent.rpc.server import RpcServer
from rtagent.rpc.serving import Endpoint, InFlight
from rtagent.scheduler.host_manager import HostManager
from rtagent.scheduler.select import Scheduler
from rtagent.testing.access import unsigned_access
from rtagent.virt.simulate import Machine
from tests.servers import Placement
from tests.servers.daemon import SchedulerServer, wait_until
from tests.support.scheduler_rpc import MemoryAggregates, MemoryServices, Selecting

HOSTS = 1000
REQUESTS = 50
AGENTS = 50
CLOCK = SystemClock()
#: What a build calls until the guest is started: select_destinations, instance_claim and
#: activate_claim over RPC.
CALLS = 3
SPEC = RequestSpec(flavor=Flavor(vcpus=1, memory_mb=64), project_id="bench", user_id="bench")
#: The same, as Placement is asked.
CANDIDATES = "/allocation_candidates?resources=VCPU:1,MEMORY_MB:64&limit=1000"
VERSION = {"headers": {"OpenStack-API-Version": "placement 1.39"}}


def memory(bench: Bench) -> Iterator[Figure]:
    """scheduler_rss_1000: the resident memory of rtagent-scheduler with 1,000 hosts of 20 guests
    each, after requests."""
    config = {"DEFAULT": {"service_down_time": 3600}}
    made = server(bench, config)
    casts, fleet = BoundedCasts(bench.transport, SCHEDULER, roles.AGENT), Fleet(HOSTS)
    api = SchedulerAPI(bench.transport, timeout=60, attempts=1)
    for name in fleet.names:
        report, instances = fleet.report(name), fleet.instances(name)
        number = Numbered(host=name, node_uuid=report.node.uuid, epoch=1, revision=1)
        casts.send([whole_list(number, instances), host_state(report)])
    wait_until(lambda: api.ping(CONTEXT)["hosts"] >= HOSTS, 120)
    spec = {"flavor": {"vcpus": 2, "memory_mb": 1024, "root_gb": 10}}
    for _ in range(bench.rounds(REQUESTS)):
        api.select_destinations(CONTEXT, spec, [str(uuid.uuid4())], alternates=True)
    resident = psutil.Process(made.pid).memory_info().rss
    yield Figure(name="scheduler_rss_1000", value=resident / 2**20, unit="MiB", target=350)
    made.terminate()


def view_lag(bench: Bench) -> Iterator[Figure]:
    """scheduler_view_lag: p99 of the time from a commit of an agent to the scheduler's view, with
    50 agents that get 100 claims each second. The floor is the interval of reports and 10 ms."""
    seen = _Seen()
    selecting = Selecting()
    served = ServedScheduler(
        scheduler=cast(Scheduler, selecting),
        count_room=selecting.count_room,
        spec_of=selecting.spec_of,
        hosts=cast(HostManager, seen),
        aggregates=MemoryAggregates(),
        services=MemoryServices(),
        pong=_no_pong,
        not_ready=lambda: None,
        unknown_claim=lambda _: None,
    )
    access = unsigned_access(NullReporter())
    endpoint = Endpoint(SCHEDULER_API, served, InFlight(CLOCK), CLOCK, NullReporter(), access)
    server = RpcServer(
        bench.transport, "lag", endpoint, InFlight(CLOCK), CLOCK, NullReporter(), SCHEDULER
    )
    server.start()
    assert server.wait_started(60)
    command = [sys.executable, "-m", "benchmarks.reporting", bench.rabbitmq.transport_url]
    arguments = [str(bench.directory()), str(AGENTS), str(bench.rounds(30))]
    done = subprocess.run(
        [*command, *arguments], cwd=floors.ROOT, stdout=subprocess.PIPE, check=True, text=True
    )
    lags = list(seen.lags(json.loads(done.stdout.splitlines()[-1])))
    server.stop(10)
    yield Figure(
        name="scheduler_view_lag",
        value=percentile(lags, 0.99) * 1000,
        unit="ms",
        floor=500 + 10,
        target=1.2,
    )


class _Seen:
    """The view of a scheduler, with the times at which it had the revisions of hosts."""

    def __init__(self) -> None:
        self._view = view()
        self._revisions: dict[str, list[tuple[int, float]]] = {}
        self.set_aside = self._view.set_aside
        self.change_instances = self._view.change_instances

    def update_host_state(self, report: HostReport) -> None:
        self._view.update_host_state(report)
        found = self._revisions.setdefault(report.node.host, [])
        found.append((report.revision, time.monotonic()))

    def lags(self, commits: Iterable[tuple[str, int, float]]) -> Iterator[float]:
        """Yield the time that each commit took to be seen; a long one for those that never were."""
        for host, revision, at in commits:
            times = [when for known, when in self._revisions.get(host, ()) if known >= revision]
            yield min(times, default=at + 60) - at


def _no_pong() -> SchedulerPong:
    raise NotImplementedError


def start(bench: Bench) -> Iterator[Figure]:
    """schedule_claim_start: builds each second, one after the other: from select_destinations to
    the started guest on a simulated host, over RabbitMQ and with Placement. The floor is the rate
    of the same number of echo calls and requests to Placement. The steps are printed, and the CPU
    time of each process for one build."""
    placement: dict[str, object] = {
        "auth_type": "admin_token",
        "endpoint": bench.placement.url,
        "token": bench.placement.token,
    }
    directory = bench.directory()
    machine = Machine(hostname="built")  # Placement has the hosts of other figures, too
    agent = agents.daemon(bench, directory, machine=machine, placement=placement)
    agent.start().wait_ready()
    conductor = {"host_uri": f"test://{directory}/{{host}}.xml"}
    (directory / "bench.xml").symlink_to(agent.host_file)
    made = server(bench, {"placement": placement, "conductor": conductor})
    node = agent.read("nodes")["nodes"][0]["uuid"]
    api = SchedulerAPI(bench.transport, timeout=60, attempts=1)
    wait_until(lambda: any(node in one["allocations"] for one in candidates(bench.placement)), 60)
    wait_until(lambda: api.ping(CONTEXT)["hosts"] >= 1, 60)
    conf = load.parse(cfg.ConfigOpts(), ["--config-file", str(made.config_file)], "bench")
    steps, builds = _Steps(), bench.rounds(30)
    used = Used(
        agent=agent.pid,
        scheduler=made.pid,
        Placement=bench.placement.pid,
        broker=bench.rabbitmq.pid,
        conductor=os.getpid(),
    )
    with open_conductor(
        conf,
        read_options(conf),
        clock=CLOCK,
        context=CONTEXT,
        timeout=60,
        listener=steps.began,
    ) as conducting:
        used.begin()
        for _ in range(builds):
            conducting.build(SPEC)
            steps.end()
    print(f"{steps.table()}\n{used.table(builds)}")
    floor = CALLS * p50_ms(floors.echo(bench), bench.rounds(200)) + placement_ms(
        bench, bench.placement
    )
    made.terminate()
    agent.terminate()
    yield Figure(
        name="schedule_claim_start",
        value=1000 / steps.until("report"),
        unit="builds/s",
        floor=1000 / floor,
        target=0.5,
        at_least=True,
    )


class _Steps:
    """The times of the steps of builds."""

    def __init__(self) -> None:
        self._taken: dict[str, list[float]] = {}
        self._now: tuple[str, float] | None = None

    def began(self, operation: ServerOperation) -> None:
        """A step begins, and the one before it ends."""
        self.end()
        self._now = operation.step, time.perf_counter()

    def end(self) -> None:
        if self._now is not None:
            name, began = self._now
            self._taken.setdefault(name, []).append(time.perf_counter() - began)
        self._now = None

    def until(self, last: str) -> float:
        """Return the time of a build in ms up to a step: the sum of medians."""
        names = list(self._taken)
        return sum(self._median(name) for name in names[: names.index(last)])

    def table(self) -> str:
        return "\n".join(f"  {name}: {self._median(name):.1f} ms" for name in self._taken)

    def _median(self, name: str) -> float:
        return median(self._taken[name]) * 1000


class Used:
    """The CPU time of processes. The children of this process are others."""

    def __init__(self, **pids: int) -> None:
        self._pids, self._before = pids, dict[str, float]()

    def begin(self) -> None:
        self._before = self._now()

    def table(self, builds: int) -> str:
        """:param builds: since the beginning."""
        seconds = {name: now - self._before[name] for name, now in self._now().items()}
        rows = (f"  {name}: {used / builds * 1000:.1f} ms" for name, used in seconds.items())
        return "\n".join(("CPU time of one build", *rows))

    def _now(self) -> dict[str, float]:
        return {name: sum(map(_cpu_seconds, _tree(pid))) for name, pid in self._pids.items()}


def _tree(pid: int) -> Iterator[psutil.Process]:
    process = psutil.Process(pid)
    yield process
    if pid != os.getpid():
        yield from process.children(recursive=True)


def _cpu_seconds(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):  # the broker has children that live for a moment
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0


def placement_ms(bench: Bench, placement: Placement) -> float:
    """Return the time of one search for candidates, and of writing one allocation."""
    client, found = placement.client(), candidates(placement)

    def both() -> None:
        client.get(CANDIDATES, **VERSION)
        body: dict[str, Any] = {
            "allocations": found[0]["allocations"],
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
            "project_id": "bench",
            "user_id": "bench",
        }
        client.put(f"/allocations/{uuid.uuid4()}", json=body, **VERSION)

    return p50_ms(both, bench.rounds(50))


def candidates(placement: Placement) -> list[dict[str, Any]]:
    """Return Placement's candidates for the guest of a build."""
    answer = placement.client().get(CANDIDATES, **VERSION).json()
    found: list[dict[str, Any]] = answer["allocation_requests"]
    return found


def server(bench: Bench, config: Mapping[str, Mapping[str, object]]) -> SchedulerServer:
    """Start a scheduler."""
    made = SchedulerServer(bench.directory(), bench.rabbitmq.transport_url, config=config)
    made.forked = False
    bench.keep(agents.Closing(made))
    return made.start().wait_ready()
