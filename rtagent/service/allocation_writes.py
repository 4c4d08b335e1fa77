"""AllocationWrites: calls that wait until the allocation of their claim is written."""

from __future__ import annotations

import threading
import uuid
from typing import NoReturn

from rtagent.embedded import EmbeddedNode
from rtagent.errors import AllocationNotWritten, ClaimExpired, Unavailable
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.placement_policy import ManageAllocations
from rtagent.placement.allocation_outbox import AllocationOutbox
from rtagent.service.context import NodeContext

#: How many calls may wait for their allocation at once. Each keeps a thread of the RPC server; the
#: others are left to the ends of claims and to reads. Few may wait once writes have failed.
WAITING, WAITING_AFTER_FAILURE = 40, 12
#: Seconds for which further calls wait to be among them, unless writes have failed: a burst of
#: claims is written soon.
BURST = 5.0


class AllocationWrites:
    """Thread-safe."""

    def __init__(self, context: NodeContext, node: EmbeddedNode, outbox: AllocationOutbox) -> None:
        self._context, self._node, self._outbox = context, node, outbox
        self._slots, self._waiting = threading.Condition(), 0

    def confirm(self, claim: Claim, call: Call) -> None:
        """With ``manage_allocations = strict``: return when the allocation of a new claim is
        written.

        :raises AllocationNotWritten: it is not written in time, and the claim was aborted.
        :raises ClaimExpired: the claim has ended meanwhile.
        """
        options = self._context.settings.current.placement
        if options.manage_allocations != ManageAllocations.STRICT:
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

    def _take_slot(self, claim: Claim, call: Call, seconds: float) -> None:
        """Become one of the calls that wait.

        :raises AllocationNotWritten: too many wait already, and the claim was aborted.
        """
        with self._slots:
            admitted = self._slots.wait_for(
                lambda: self._outbox.error is not None or self._waiting < WAITING, seconds
            )
            limit = WAITING if self._outbox.error is None else WAITING_AFTER_FAILURE
            if admitted and self._waiting < limit:
                self._waiting += 1
                return
        why = f"{limit} calls wait for their allocations, which is the limit"
        self._give_up(claim, call, 0, why)

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
