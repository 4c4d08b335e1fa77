"""What the reports to the schedulers cost an agent."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from benchmarks import agents
from benchmarks.bench import Bench, calls_per_second
from benchmarks.figure import Figure
from rtagent.claims import instance_claim, release_claim
from rtagent.conf.settings import SettingsHolder
from rtagent.embedded import EmbeddedNode, SystemClock
from rtagent.model.change import Call
from rtagent.ports import NullReporter
from rtagent.rpc import SCHEDULER, roles
from rtagent.rpc.casts import BoundedCasts
from rtagent.service.admission import Admission
from rtagent.service.context import NodeContext
from rtagent.service.heartbeat import Heartbeat
from rtagent.service.host_reports import HostReports
from rtagent.service.loop import Loop
from rtagent.testing.hypervisor import FakeHypervisor
from rtagent.testing.memory_store import MemoryServiceRegistry

#: Claims of one turn, by each of 16 threads: a turn is longer than ``host_report_interval``.
ROUNDS = 100


def cost(bench: Bench) -> Iterator[Figure]:
    """claim_reports_cost: the rate of claim_inprocess_16 with reports, against the rate without
    them. The rates are those of many turns together, because only some of them have a report."""
    hypervisor = FakeHypervisor()
    silent = agents.node(bench.directory(), hypervisor)
    silent.auditor.run("start")
    directory = bench.directory()
    reporting = agents.node(directory, hypervisor)
    reporting.auditor.run("start")
    loop = _reports(bench, reporting, SettingsHolder(agents.settings_in(directory)))
    seconds = {reporting.node.uuid: 0.0, silent.node.uuid: 0.0}
    turns = bench.rounds(20)
    for turn in range(turns):
        for node in (reporting, silent) if turn % 2 else (silent, reporting):
            seconds[node.node.uuid] += _seconds(node)
    claims = turns * 16 * ROUNDS
    loop.stop(10)
    reporting.close()
    silent.close()
    yield Figure(
        name="claim_reports_cost",
        value=claims / seconds[reporting.node.uuid],
        floor=claims / seconds[silent.node.uuid],
        unit="claims/s",
        target=0.95,
        at_least=True,
    )


def _reports(bench: Bench, node: EmbeddedNode, settings: SettingsHolder) -> Loop:
    """Start the thread that reports a node, as rtagentd does."""
    clock, reporter = SystemClock(), NullReporter()
    context = NodeContext(settings=settings, clock=clock, reporter=reporter, bus=node.tracker.bus)
    admission = Admission(node.tracker)
    admission.open()
    heartbeat = Heartbeat(context, MemoryServiceRegistry(), node.tracker)
    send: Callable[..., None] = BoundedCasts(bench.transport, SCHEDULER, roles.AGENT).send
    loop = Loop("host-reports", None, clock, reporter)
    reports = HostReports(context, node, admission, heartbeat, send, tuple, loop.wake)
    loop.add("host-reports", reports.turn)
    loop.start()
    return loop


def _seconds(node: EmbeddedNode) -> float:
    """Return the seconds that the claims of one turn take. They are released afterwards."""
    rate = calls_per_second(
        lambda: node.tracker.create(instance_claim, *agents.build()), 16, ROUNDS
    )

    def release(claim_uuid: str) -> None:
        call = Call(method="release_claim", operation_id=str(uuid.uuid4()), digest="")
        node.tracker.execute(release_claim, call, claim_uuid)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(release, node.state.claims))
    return 16 * ROUNDS / rate
