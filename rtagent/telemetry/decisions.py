"""Decisions: every step of a claim's life in the log, told after it is durable.

A line of the log costs a third of what a claim does, so no caller waits for it: the steps are put
aside, and a thread of the service tells them. The steps of one turn share a line.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence

from rtagent.model.change import Change, Event
from rtagent.model.host import HostState
from rtagent.ports import Reporter

#: How many steps a line tells at most.
STEPS = 50


class Decisions:
    """Refusals are not among them: who answers the caller tells of those. Thread-safe."""

    def __init__(self, reporter: Reporter, put_aside: Callable[[], None]) -> None:
        """:param put_aside: called when there is something to `tell`, and there was nothing
        before; must return at once."""
        self._reporter, self._put_aside = reporter, put_aside
        self._steps: queue.SimpleQueue[tuple[Change, Event]] = queue.SimpleQueue()

    def listener(self, state: HostState, changes: Sequence[Change]) -> None:
        """For `ResourceTracker.listen`."""
        steps = [(change, event) for change in changes for event in change.events]
        nothing_waits = self._steps.empty()
        for step in steps:
            self._steps.put(step)
        if steps and nothing_waits:
            self._put_aside()

    def tell(self) -> None:
        """Log what was put aside, in its order."""
        while told := list(self._take()):
            self._reporter.said("info", "; ".join(told))

    def _take(self) -> Iterator[str]:
        for _ in range(STEPS):
            try:
                yield sentence(*self._steps.get_nowait())
            except queue.Empty:
                return


def sentence(change: Change, event: Event) -> str:
    """What happened to which claim, and on whose account."""
    claim = event.after
    why = f": {event.reason}" if event.reason else ""
    by = " ".join(word for word in (change.actor, change.request_id) if word)
    own = f" and {claim.pcpus} of its own" if claim.pcpus else ""
    return (
        f"{event.action} claim {claim.uuid} of instance {claim.owner_id}: {claim.state},"
        f" {claim.vcpus} vCPUs{own}, {claim.memory_mb} MB, {claim.disk_mb} MB of disk"
        f" ({change.cause}{f' by {by}' if by else ''}){why}"
    )
