"""Recovery: reload the tracker when the store is available again, and keep its policy
up to date.
"""

from __future__ import annotations

from rtagent.embedded import EmbeddedNode
from rtagent.errors import StoreUnavailable, TrackerBusy, WriterFenced
from rtagent.service.context import NodeContext
from rtagent.service.loop import Backoff, Rest, every

#: Seconds for which a turn waits for the tracker to become stale.
PATIENCE = 0.5


class Recovery:
    """The turns of the thread ``recovery``.

    Each turn sets the policy, even if it has not changed. The change passes through the tracker's
    queue, which shows the watchdog that the queue makes progress.
    """

    def __init__(self, context: NodeContext, node: EmbeddedNode) -> None:
        self._context, self._node, self._tracker = context, node, node.tracker
        self._reporter = context.reporter.named(__name__)
        self._backoff = Backoff()

    def turn(self) -> Rest:
        """Wait for the tracker to become stale. Recover it, or else set the policy."""
        stale = self._tracker.wait_stale(PATIENCE)
        fault = self._tracker.fault
        if isinstance(fault, WriterFenced):
            self._context.events.fatal(fault)
            return Rest()
        return self._recover() if stale else self._set_policy()

    def _recover(self) -> Rest:
        if not self._tracker.recover():
            return every(self._backoff.pause())
        self._backoff.reset()
        self._context.events.returned()
        return every(0.0)

    def _set_policy(self) -> Rest:
        before = self._tracker.snapshot().policy
        try:
            self._node.apply(self._context.settings.current)
        except (StoreUnavailable, TrackerBusy) as error:
            self._reporter.log("warning", f"the policy is not in force yet: {error.message}")
        else:
            if self._tracker.snapshot().policy != before:
                self._context.events.policy_changed()
        return every(0.0)
