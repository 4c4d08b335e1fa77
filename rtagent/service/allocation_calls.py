"""Calls that wait for Placement: to delete allocations, or to have that of a new claim written."""

import queue
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import NoReturn

from rtagent import errors
from rtagent.claims import abort_leased_claim
from rtagent.embedded import EmbeddedNode
from rtagent.model.change import Call
from rtagent.model.claim import Claim
from rtagent.model.consumers import DeletionReason, Parts
from rtagent.model.node_state import NodeState
from rtagent.model.policy import ManageAllocations
from rtagent.placement.allocation_audit import AllocatedConsumer, quantities, unneeded_consumers
from rtagent.placement.allocation_outbox import AllocationOutbox
from rtagent.placement.client import HttpPlacement, use_request_id
from rtagent.placement.consumers import change_parts, tree_providers
from rtagent.service.context import NodeContext
from rtagent.service.loop import Rest

#: Seconds for which a call waits for Placement. Less than the agent's stop waits for calls in
#: flight.
TIMEOUT = 20.0

#: The instance, why its allocations are deleted, and the result for the caller.
_Job = tuple[Future[None], str, DeletionReason]


class AllocationCalls:
    """Deletes allocations for callers, one after the other. Thread-safe.

    A caller waits for a bounded time. Its thread is not the one that waits for Placement.
    """

    def __init__(
        self, context: NodeContext, api: HttpPlacement, node: EmbeddedNode, wake: Callable[[], None]
    ) -> None:
        """:param wake: wakes the thread that makes the calls."""
        self._api, self._tracker, self._wake = api, node.tracker, wake
        self._reporter = context.reporter.named(__name__)
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()

    def delete(self, instance_uuid: str, reason: DeletionReason) -> None:
        """Delete this node's part of what an instance has that has left. Idempotent.

        :raises IllegalTransition: the instance has a claim here that needs it.
        :raises PlacementError: it is not deleted; `PlacementUnavailable`: a repetition may succeed.
        :raises StoreUnavailable: NodeNotReady: it is not known which claims there are.
        """
        unneeded_consumers(self._state, instance_uuid, reason)
        job: Future[None] = Future()
        self._jobs.put((job, instance_uuid, reason))
        self._wake()
        try:
            job.result(TIMEOUT)
        except TimeoutError as error:
            job.cancel()
            raise errors.PlacementUnavailable(
                f"Placement did not delete the allocation within {TIMEOUT:g} s: repeat the call"
            ) from error

    def turn(self) -> Rest:
        """Make the call that waits longest. So a claim waits for one of them at most."""
        if self._jobs.empty():
            return Rest()
        use_request_id("")
        job, instance_uuid, reason = self._jobs.get()
        if job.set_running_or_notify_cancel():
            try:
                self._delete(instance_uuid, reason)
            except BaseException as error:  # raised to the caller
                job.set_exception(error)
            else:
                job.set_result(None)
        return Rest(at_most=0.0)

    @property
    def _state(self) -> NodeState:
        """The state, if it has every claim. :raises StoreUnavailable: NodeNotReady:"""
        if self._tracker.stale:
            raise errors.StoreUnavailable
        if (fault := self._tracker.fault) is not None:
            raise errors.NodeNotReady(fault.message)
        if (restored := self._tracker.restored) is not None:
            raise errors.StoreRestored(restored=str(restored), revision=restored.revision)
        return self._tracker.snapshot()

    def _delete(self, instance_uuid: str, reason: DeletionReason) -> None:
        def nothing(now: AllocatedConsumer) -> Parts | None:
            consumers = unneeded_consumers(self._state, instance_uuid, reason)
            return {} if now.uuid in consumers else None

        providers = tree_providers(self._api, self._state.node.uuid)
        for consumer_uuid in unneeded_consumers(self._state, instance_uuid, reason):
            shared = self._state.policy.placement.disk_provider
            changed = change_parts(self._api, consumer_uuid, providers, nothing, shared=shared)
            if changed is not None:
                what = quantities(changed.allocations)
                self._reporter.log(
                    "info",
                    f"placement: deleted the allocation of {consumer_uuid} here ({what}), because"
                    f" instance {instance_uuid} was {reason.value}",
                )


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
            raise errors.ClaimExpired(claim_uuid=claim.uuid)

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
            self._node.tracker.execute(abort_leased_claim, abort, claim.uuid)
        except errors.Unavailable as error:
            effect = f"the claim ends with its lease, because it cannot be aborted: {error.message}"
        raise errors.AllocationNotWritten(
            claim_uuid=claim.uuid, seconds=seconds, why=why, effect=effect
        )
