"""What an agent does in Placement, on one thread with one client, or that it does nothing there."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from rtagent.api.routes import NO_AUDIT
from rtagent.bus import StatePublished
from rtagent.embedded import EmbeddedNode
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.consumers import DeletionReason, OutboxRow
from rtagent.placement.allocation_outbox import AllocationOutbox, OutboxSource
from rtagent.placement.client import HttpPlacement, current_request_id, use_request_id
from rtagent.placement.loading import not_configured
from rtagent.ports import Store
from rtagent.service.admission import Admission
from rtagent.service.allocation_audits import AllocationAudits
from rtagent.service.allocation_calls import AllocationCalls, AllocationWrites
from rtagent.service.context import NodeContext, Reloaded
from rtagent.service.heartbeat import Heartbeat
from rtagent.service.loop import Loop, Rest
from rtagent.service.publisher import Publisher
from rtagent.telemetry.metrics import Metrics

#: Seconds for which `Placement.stop` waits for a request in flight.
STOP_TIMEOUT = 5.0


class Placement:
    """The parts that read and write Placement, and their thread.

    Their turns are in the order of their urgency: what callers wait for, rounds of the mirror,
    writes of allocations, audits. A round and an audit give way between two providers, so that a
    call waits for the requests of one provider at most.
    """

    def __init__(
        self,
        context: NodeContext,
        api: HttpPlacement,
        node: EmbeddedNode,
        store: Store,
        admission: Admission,
        heartbeat: Heartbeat,
    ) -> None:
        loop = self._loop = Loop("placement", None, context.clock, context.reporter)
        tracker, way = node.tracker, self._give_way
        self._publisher = Publisher(context, api, node, admission, heartbeat, loop.wake, way)
        source = OutboxSource(
            state=tracker.snapshot,
            ready=self._ready,
            owns=self._publisher.owns,
            enqueue=tracker.unwritten.add,
            remove=tracker.unwritten.remove,
        )
        self._outbox = AllocationOutbox(
            api, source, context.clock, context.reporter, wake=loop.wake
        )
        bus, outbox = context.bus, self._outbox
        bus.subscribe(StatePublished, lambda event: outbox.listener(event.state, event.changes))
        bus.subscribe(Reloaded, self._reload)
        calls = AllocationCalls(context, api, node, loop.wake)
        audits = AllocationAudits(context, api, node, store, self._publisher, loop.wake, way)
        self.confirm = AllocationWrites(context, node, self._outbox).confirm
        self.delete, self.document, self._audits = calls.delete, audits.document, audits
        loop.add("allocation-calls", calls.turn)
        loop.add("strict-writes", lambda: self._write() if self._outbox.strict else Rest())
        loop.add("mirror", self._mirror)
        loop.add("allocation-writes", self._write)
        loop.add("allocation-audit", audits.turn)

    @property
    def loops(self) -> Sequence[Loop]:
        """The thread."""
        return [self._loop]

    def start(self) -> None:
        """Start the thread."""
        self._loop.start()

    def stop(self, timeout: float = STOP_TIMEOUT) -> bool:
        """Start no further request. Return whether the request in flight has ended in time. If not,
        the next start repeats it.
        """
        if ended := self._loop.stop(timeout):
            self._outbox.finish()
        return ended

    def _reload(self, _: Reloaded) -> None:
        """Read everything again soon, because the options may have changed."""
        self._publisher.mirror.forget()
        self._outbox.recheck()
        self._loop.wake()

    def sync(self) -> int:
        """Publish, and compare all allocations soon. See `Publisher.sync`."""
        revision = self._publisher.sync()
        self._outbox.recheck()
        return revision

    def unwritten(self) -> Sequence[OutboxRow]:
        """Return the allocations that Placement does not have, oldest first."""
        return self._outbox.unwritten()

    @property
    def error(self) -> str:
        """Why allocations are not written at present, or ""."""
        error = self._outbox.error
        return "" if error is None else error.message

    def measure(self, metrics: Metrics) -> None:
        """Register the gauges."""
        self._publisher.measure(metrics)
        self._audits.measure(metrics)
        metrics.gauge(
            "allocation_outbox_rows",
            "Allocations that Placement does not have yet",
            lambda: len(self._outbox.unwritten()),
        )
        metrics.gauge(
            "allocation_outbox_age_seconds",
            "Age of the oldest allocation that Placement does not have yet",
            lambda: self._outbox.age,
        )

    def _mirror(self) -> Rest:
        mirror = self._publisher.mirror
        mirror.turn()
        return Rest(at_most=mirror.due_in)

    def _write(self) -> Rest:
        if self._outbox.due_in <= 0:
            self._outbox.turn()
        return Rest(at_most=self._outbox.due_in)

    def _ready(self) -> bool:
        """Whether Placement may have the inventories, and the claims are known to be complete."""
        return self._publisher.claims_complete and self._publisher.first_round_ended

    def _give_way(self) -> None:
        """Run more urgent turns. The requests after them have the same request id as before."""
        request_id = current_request_id()
        self._loop.give_way()
        use_request_id(request_id)


class NoPlacement:
    """The null object of `Placement`: nothing is published, and there is no thread."""

    loops: Sequence[Loop] = ()
    error = ""

    def start(self) -> None:
        """Nothing is started."""

    def stop(self) -> bool:
        """Nothing runs."""
        return True

    def sync(self) -> NoReturn:
        """:raises PlacementError: always."""
        raise not_configured()

    def delete(self, _instance_uuid: str, _reason: DeletionReason) -> NoReturn:
        """:raises PlacementError: always."""
        raise not_configured()

    def confirm(self, _claim: Claim, _call: Call) -> None:
        """No call waits."""

    def document(self) -> Mapping[str, Any]:
        """There are no audits."""
        return NO_AUDIT

    def unwritten(self) -> Sequence[OutboxRow]:
        """Nothing is written."""
        return ()

    def measure(self, metrics: Metrics) -> None:
        """There are no gauges."""
