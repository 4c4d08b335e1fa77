"""AllocationWrites: write the allocations of claims to Placement, if that is configured."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from typing import NoReturn

from rtagent.embedded import EmbeddedNode
from rtagent.errors import AllocationNotWritten, ClaimExpired, Unavailable
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.outbox import OutboxRow
from rtagent.model.placement_policy import ManageAllocations
from rtagent.placement.allocation_outbox import AllocationOutbox, OutboxSource
from rtagent.placement.api import PlacementAPI
from rtagent.service.context import NodeContext
from rtagent.service.publisher import Publisher
from rtagent.telemetry.metrics import Metrics

#: How many calls may wait for their allocation at once. Each keeps a thread of the RPC server; the
#: others are left to the ends of claims and to reads. Few may wait once writes have failed.
WAITING, WAITING_AFTER_FAILURE = 40, 12
#: Seconds for which further calls wait to be among them, unless writes have failed: a burst of
#: claims is written soon.
BURST = 5.0


class AllocationWrites:
    """The outbox with its own thread, or none. Thread-safe."""

    def __init__(
        self,
        context: NodeContext,
        api: PlacementAPI | None,
        node: EmbeddedNode,
        publisher: Publisher,
    ) -> None:
        """:param api: of the outbox alone; None if nothing is published."""
        self._context, self._node, self._publisher = context, node, publisher
        self._reporter = context.reporter.named(__name__)
        self._slots, self._waiting = threading.Condition(), 0
        self._outbox = None if api is None else self._make(api)

    def start(self) -> None:
        """Start to write."""
        if self._outbox is not None:
            self._outbox.start()

    def stop(self) -> bool:
        """Start no further request. Return whether the request in flight has ended in time."""
        return self._outbox is None or self._outbox.stop()

    def recheck(self) -> None:
        """Compare all allocations with the claims soon, because the options, or another client, may
        have changed something.
        """
        if self._outbox is not None:
            self._outbox.recheck()

    def unwritten(self) -> Sequence[OutboxRow]:
        """Return the allocations that Placement does not have, oldest first."""
        return () if self._outbox is None else self._outbox.unwritten()

    @property
    def error(self) -> str:
        """Why allocations are not written at present, or ""."""
        error = None if self._outbox is None else self._outbox.error
        return "" if error is None else error.message

    def confirm(self, claim: Claim, call: Call) -> None:
        """With ``manage_allocations = strict``: return when the allocation of a new claim is
        written.

        :raises AllocationNotWritten: it is not written in time, and the claim was aborted.
        :raises ClaimExpired: the claim has ended meanwhile.
        """
        options = self._context.settings.current.placement
        if self._outbox is None or options.manage_allocations != ManageAllocations.STRICT:
            return
        seconds = options.allocation_timeout
        if self._node.state.policy.placement.manage_allocations == ManageAllocations.NO:
            self._give_up(claim, call, 0, "the option is not in force yet")
        ends = self._context.clock.monotonic() + seconds
        self._take_slot(claim, call, min(BURST, seconds))
        try:
            consumers = [each for each in (claim.owner_id, claim.migration_uuid) if each]
            left = max(0.0, ends - self._context.clock.monotonic())
            written = self._outbox.wait_written(consumers, left)
        finally:
            with self._slots:
                self._waiting -= 1
                self._slots.notify()
        if not written:
            error = self._outbox.error
            self._give_up(claim, call, seconds, error.message if error else "Placement is slow")
        if claim.uuid not in self._node.state.claims:  # what was written is that it has nothing
            raise ClaimExpired(claim_uuid=claim.uuid)

    def measure(self, metrics: Metrics) -> None:
        """Register the gauges of the outbox, if there is one."""
        if (outbox := self._outbox) is not None:
            metrics.gauge(
                "allocation_outbox_rows",
                "Allocations that Placement does not have yet",
                lambda: len(outbox.unwritten()),
            )
            metrics.gauge(
                "allocation_outbox_age_seconds",
                "Age of the oldest allocation that Placement does not have yet",
                lambda: outbox.age,
            )

    def _take_slot(self, claim: Claim, call: Call, seconds: float) -> None:
        """Become one of the calls that wait.

        :raises AllocationNotWritten: too many wait already, and the claim was aborted.
        """
        with self._slots:
            admitted = self._slots.wait_for(
                lambda: self._failing or self._waiting < WAITING, seconds
            )
            limit = WAITING_AFTER_FAILURE if self._failing else WAITING
            if admitted and self._waiting < limit:
                self._waiting += 1
                return
        why = f"{limit} calls wait for their allocations, which is the limit"
        self._give_up(claim, call, 0, why)

    @property
    def _failing(self) -> bool:
        return self._outbox is not None and self._outbox.error is not None

    def _give_up(self, claim: Claim, call: Call, seconds: int, why: str) -> NoReturn:
        """Abort a claim whose caller gets an error, unless a repeat of the call has activated it.

        :raises AllocationNotWritten: always.
        """
        abort = Call(
            method="abort_instance_claim",
            operation_id=str(uuid.uuid4()),
            digest="",
            request_id=call.request_id,
            actor=call.actor,
        )
        effect = "the claim was aborted"
        try:
            self._node.tracker.abort_leased_claim(claim.uuid, abort)
        except Unavailable as error:
            effect = f"the claim ends with its lease, because it cannot be aborted: {error.message}"
        raise AllocationNotWritten(claim_uuid=claim.uuid, seconds=seconds, why=why, effect=effect)

    def _make(self, api: PlacementAPI) -> AllocationOutbox:
        context, tracker = self._context, self._node.tracker
        source = OutboxSource(
            state=tracker.snapshot,
            ready=self._ready,
            owns=self._publisher.owns,
            pushing=lambda: self._publisher.pushing,
            enqueue=tracker.unwritten.add,
            remove=tracker.unwritten.remove,
        )
        outbox = AllocationOutbox(api, source, context.clock, context.reporter)
        tracker.listen(outbox.listener)
        return outbox

    def _ready(self) -> bool:
        """Whether Placement may have the inventories, and the claims are known to be complete."""
        return self._publisher.claims_complete and self._publisher.first_round_ended
