"""OutboxHealth: reports whether Placement has the allocations of the claims."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.errors import PlacementError
from rtagent.model.health import Status
from rtagent.model.outbox import OutboxRow
from rtagent.ports import Reporter

#: The name in health.
PART = "allocation_outbox"
#: How many consumers a message names.
NAMED = 3
#: Seconds for which allocations may be unwritten without a failure before that is reported.
SLOW = 60.0


class OutboxHealth:
    """Reports the health of the outbox, and logs a failure once even if each turn meets it."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter.named(__name__)
        self._status = Status.PASS
        self._kind: object = None

    def clear(self) -> None:
        """Report that nothing has to be written, if a failure was reported."""
        if self._status != Status.PASS:
            self._note(Status.PASS, "", None)

    def report(
        self, unwritten: Sequence[OutboxRow], error: PlacementError | None, age: float
    ) -> None:
        """:param unwritten: oldest first. :param error: why they are not written, or None.
        :param age: of the oldest, in seconds.
        """
        if not error and age < SLOW:
            self._note(Status.PASS, "", None)
            return
        names = ", ".join(row.consumer_uuid for row in unwritten[:NAMED])
        more = ", ..." if len(unwritten) > NAMED else ""
        count = f"{len(unwritten)} allocations are not written, the oldest for {age:.0f} s"
        text = f"{count} ({names}{more})" if unwritten else "allocations cannot be compared"
        reason = f": {error.message}" if error else ""
        kind = (type(error), error.kwargs.get("code")) if error else None
        self._note(Status.WARN, f"{text}{reason}", kind)

    def _note(self, status: Status, output: str, kind: object) -> None:
        self._reporter.health(PART, status, output)
        # The reporter logs a new status itself.
        if status == self._status and kind != self._kind:
            self._reporter.log("warning", f"{PART}: {output}")
        self._status, self._kind = status, kind
