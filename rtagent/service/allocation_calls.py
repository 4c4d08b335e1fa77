"""AllocationCalls: RPC calls that delete allocations."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import Future

from rtagent.embedded import EmbeddedNode
from rtagent.errors import (
    NodeNotReady,
    PlacementUnavailable,
    StoreRestored,
    StoreUnavailable,
)
from rtagent.model.consumers import Parts
from rtagent.model.deletion_reason import DeletionReason
from rtagent.model.node_state import NodeState
from rtagent.placement.allocation_audit import AllocatedConsumer, quantities
from rtagent.placement.client import HttpPlacement
from rtagent.placement.consumers import change_parts, tree_providers
from rtagent.placement.deletions import unneeded_consumers
from rtagent.placement.request_id import use_request_id
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
        self,
        context: NodeContext,
        api: HttpPlacement,
        node: EmbeddedNode,
        wake: Callable[[], None],
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
            raise PlacementUnavailable(
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
            raise StoreUnavailable
        if (fault := self._tracker.fault) is not None:
            raise NodeNotReady(fault.message)
        if (restored := self._tracker.restored) is not None:
            raise StoreRestored(restored=str(restored), revision=restored.revision)
        return self._tracker.snapshot()

    def _delete(self, instance_uuid: str, reason: DeletionReason) -> None:
        def nothing(now: AllocatedConsumer) -> Parts | None:
            consumers = unneeded_consumers(self._state, instance_uuid, reason)
            return {} if now.uuid in consumers else None

        providers = tree_providers(self._api, self._state.node.uuid)
        for uuid in unneeded_consumers(self._state, instance_uuid, reason):
            shared = self._state.policy.placement.disk_provider
            changed = change_parts(self._api, uuid, providers, nothing, shared=shared)
            if changed is not None:
                what = quantities(changed.allocations)
                self._reporter.log(
                    "info",
                    f"placement: deleted the allocation of {uuid} here ({what}), because instance"
                    f" {instance_uuid} was {reason.value}",
                )
