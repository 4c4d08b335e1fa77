"""What events cost an agent: their rows alone, and their publication to a message broker."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from statistics import median
from unittest.mock import patch

from oslo_config import cfg

from benchmarks import agents
from benchmarks.bench import Bench, calls_per_second
from benchmarks.figure import Figure
from rtagent.claims import instance_claim, release_claim
from rtagent.conf.settings import SettingsHolder
from rtagent.db.engine import open_engine
from rtagent.db.event_rows import SqlEventLog
from rtagent.embedded import EmbeddedNode, SystemClock
from rtagent.model.change import Call
from rtagent.ports import EventLog, NullReporter
from rtagent.rpc.notifier import event_sender
from rtagent.rpc.transport import get_notification_transport
from rtagent.service.context import NodeContext
from rtagent.service.loop import Loop
from rtagent.service.notifications import Notifications
from rtagent.state import writer
from rtagent.testing.hypervisor import FakeHypervisor

#: Claims of one turn, by each of 16 threads.
ROUNDS = 50
#: Pairs of turns.
TURNS = 16

Turn = Callable[[], AbstractContextManager[object]]


def recorded_cost(bench: Bench) -> Iterator[Figure]:
    """claim_event_rows_cost: the rate of claims and their releases with events that are recorded,
    as they are without notifications and without readers, against the rate without events."""
    node = agents.node(bench.directory(), FakeHypervisor())
    node.auditor.run("start")
    yield _compared(bench, "claim_event_rows_cost", node, nullcontext, 0.95)
    node.close()


def published_cost(bench: Bench) -> Iterator[Figure]:
    """claim_events_cost: the same with events that are published to a message broker meanwhile."""
    directory = bench.directory()
    node = agents.node(directory, FakeHypervisor())
    node.auditor.run("start")
    settings = agents.settings_in(directory)
    engine = open_engine(settings.database.connection, 5.0)
    log = SqlEventLog(engine)
    conf = cfg.ConfigOpts()
    conf([], project="rtagent", default_config_files=[])
    sender = event_sender(_notifying(conf, bench), "bench")
    context = NodeContext(
        settings=SettingsHolder(settings),
        clock=SystemClock(),
        reporter=NullReporter(),
        bus=node.tracker.bus,
    )

    @contextmanager
    def publishing() -> Iterator[None]:
        # Each turn begins without a backlog.
        last = node.state.event_sequence
        log.set_published(node.node.uuid, last)
        assert sender is not None
        sender.accepted = last
        loop = Loop("notifications", None, context.clock, context.reporter)
        kept = settings.events.kept
        parts = Notifications(context, log, node.tracker, sender, kept, loop.wake)
        loop.add("notifications", parts.turn)
        loop.start()
        yield
        loop.stop(10)
        assert _published(log, node) > last

    yield _compared(bench, "claim_events_cost", node, publishing, 0.9)
    node.close()
    engine.dispose()


def _notifying(conf: cfg.ConfigOpts, bench: Bench) -> cfg.ConfigOpts:
    """Return the configuration with notifications to the broker of the run."""
    get_notification_transport(conf).cleanup()  # registers the options
    group = "oslo_messaging_notifications"
    conf.set_override("transport_url", bench.rabbitmq.transport_url, group=group)
    conf.set_override("driver", ["messagingv2"], group=group)
    return conf


def _published(log: EventLog, node: EmbeddedNode) -> int:
    return log.published(node.node.uuid) or 0


def _compared(bench: Bench, name: str, node: EmbeddedNode, turn: Turn, target: float) -> Figure:
    """Return the median rate with events, with the one without as floor, in pairs of turns."""
    _rate(node)
    rates, ratios = [], []
    for number in range(bench.rounds(TURNS)):
        rate = dict[str, float]()
        for kind in ("with", "without") if number % 2 else ("without", "with"):
            with turn() if kind == "with" else _without_events():
                rate[kind] = _rate(node)
        rates.append(rate["without"])
        ratios.append(rate["with"] / rate["without"])
    floor = median(rates)
    return Figure(
        name=name,
        value=floor * median(ratios),
        floor=floor,
        unit="claims/s",
        target=target,
        at_least=True,
    )


def _without_events() -> AbstractContextManager[object]:
    return patch.object(writer, "with_notifications", lambda before, change: change)


def _rate(node: EmbeddedNode) -> float:
    """Return the claims per second of one turn, each with its release. Both record an event."""

    def claim_and_release() -> None:
        claim = node.tracker.create(instance_claim, *agents.build())
        call = Call(method="release_claim", operation_id=str(uuid.uuid4()), digest="")
        node.tracker.execute(release_claim, call, claim.uuid)

    return calls_per_second(claim_and_release, 16, ROUNDS)
