"""Recovery: reload the tracker when the store is available again, and keep its policy
up to date.
"""

from collections.abc import Callable

from rtagent.bus import StatePublished, WriterDown
from rtagent.embedded import EmbeddedNode
from rtagent.errors import StoreUnavailable, TrackerBusy, WriterFenced
from rtagent.service.context import Fatal, NodeContext, PolicyChanged, Reloaded, StoreReturned
from rtagent.service.loop import LAST, Backoff, Rest, every

#: Seconds between two turns at most.
INTERVAL = 10.0
#: Seconds between two turns at least. With provider files, each change of the state needs one.
GATHER = 0.5


class Recovery:
    """The turns of the thread ``recovery``. It is woken when the tracker becomes stale or has a
    fault, and when the policy may have changed.

    Each turn sets the policy, even if it has not changed. The change passes through the tracker's
    queue, which shows the watchdog that the queue makes progress.
    """

    def __init__(self, context: NodeContext, node: EmbeddedNode, wake: Callable[[], None]) -> None:
        """:param wake: runs the next turn soon."""
        self._context, self._node, self._tracker = context, node, node.tracker
        self._reporter = context.reporter.named(__name__)
        self._backoff = Backoff()
        # Whether the policy was set after the first audit. Before, the row cannot be written.
        self._complete = False
        self._wake = wake
        context.bus.subscribe(WriterDown, lambda _: wake())
        context.bus.subscribe(StatePublished, self._published)
        context.bus.subscribe(Reloaded, lambda _: wake())

    def _published(self, _: StatePublished) -> None:
        if self._context.settings.current.provider_files.entries or not self._complete:
            self._wake()

    def turn(self) -> Rest:
        """Recover the tracker if it is stale, or else set the policy."""
        fault = self._tracker.fault
        if isinstance(fault, WriterFenced):
            self._context.bus.publish(Fatal(error=fault))
            return Rest()
        return self._recover() if self._tracker.stale else self._set_policy()

    def _recover(self) -> Rest:
        clock = self._context.clock
        began = clock.monotonic()
        if not self._tracker.recover():
            # A store that is slow to fail is given time, because all its agents try again.
            return every(self._backoff.pause(min(clock.monotonic() - began, LAST)))
        self._backoff.reset()
        self._context.bus.publish(StoreReturned())
        return every(0.0)

    def _set_policy(self) -> Rest:
        state = self._tracker.snapshot()
        try:
            self._node.apply(self._context.settings.current)
        except (StoreUnavailable, TrackerBusy) as error:
            self._reporter.log("warning", f"the policy is not in force yet: {error.message}")
            return every(GATHER)
        self._complete = state.topology is not None
        if self._tracker.snapshot().policy != state.policy:
            self._context.bus.publish(PolicyChanged())
        return Rest(at_least=GATHER, at_most=INTERVAL)
