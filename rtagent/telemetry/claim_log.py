"""ClaimLog: log every step of a claim's life, after the step is durable.

Writing a log line takes a third of the time of a claim, so no caller waits for it. The steps are
queued, and a thread of the service writes them. The steps of one turn share a line.
"""

import queue
from collections.abc import Iterator, Sequence

from rtagent.model.change import Change, Event
from rtagent.model.printable import printable
from rtagent.ports import Reporter

#: The largest number of steps in one line, and the number of characters after which a line gets no
#: further step.
STEPS = 50
LENGTH = 6_000
#: Characters of what the caller has sent: a reason, the actor with the request id.
MAX_TEXT = 600


class ClaimLog:
    """Logs what was granted, changed and released. Thread-safe.

    Refusals are not in it: the RPC endpoint logs them when it answers the caller.
    """

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter.named(__name__)
        self._steps: queue.SimpleQueue[tuple[Change, Event]] = queue.SimpleQueue()

    def add(self, changes: Sequence[Change]) -> bool:
        """Queue the steps of published changes.

        :returns: whether `write` should be called: there are steps, and the queue was empty.
        """
        steps = [(change, event) for change in changes for event in change.events]
        was_empty = self._steps.empty()
        for step in steps:
            self._steps.put(step)
        return bool(steps) and was_empty

    def write(self) -> None:
        """Log the queued steps, in their order."""
        while steps := list(self._take()):
            self._reporter.log("info", "; ".join(steps))

    def _take(self) -> Iterator[str]:
        number = length = 0
        while number < STEPS and length < LENGTH:
            try:
                step = sentence(*self._steps.get_nowait())
            except queue.Empty:
                return
            number, length = number + 1, length + len(step)
            yield step


def sentence(change: Change, event: Event) -> str:
    """Return a sentence about a change of a claim: action, claim, reason, and the
    requesting user.
    """
    claim = event.after
    why = f": {printable(event.reason, MAX_TEXT)}" if event.reason else ""
    by = printable(" ".join(word for word in (change.actor, change.request_id) if word), MAX_TEXT)
    dedicated = f", {claim.pcpus} pCPUs" if claim.pcpus else ""
    return (
        f"{event.action} claim {claim.uuid} of instance {claim.owner_id}: {claim.state},"
        f" {claim.vcpus} vCPUs{dedicated}, {claim.memory_mb} MB, {claim.disk_mb} MB of disk"
        f" ({change.cause}{f' by {by}' if by else ''}){why}"
    )
