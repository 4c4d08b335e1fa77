"""Decisions: every step of a claim's life in the log, told after it is durable.

The steps of one commit share a line: a line costs more than all that is in it.
"""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.model.change import Change, Event
from rtagent.model.host import HostState
from rtagent.ports import Reporter


class Decisions:
    """Refusals are not among them: who answers the caller tells of those."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def listener(self, state: HostState, changes: Sequence[Change]) -> None:
        """For `ResourceTracker.listen`."""
        steps = [sentence(change, event) for change in changes for event in change.events]
        if steps:
            self._reporter.said("info", "; ".join(steps))


def sentence(change: Change, event: Event) -> str:
    """What happened to which claim, and on whose account."""
    claim = event.after
    why = f": {event.reason}" if event.reason else ""
    by = " ".join(word for word in (change.actor, change.request_id) if word)
    return (
        f"{event.action} claim {claim.uuid} of instance {claim.owner_id}: {claim.state},"
        f" {claim.vcpus} vCPUs, {claim.memory_mb} MB, {claim.disk_mb} MB of disk"
        f" ({change.cause}{f' by {by}' if by else ''}){why}"
    )
