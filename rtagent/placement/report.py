"""What the mirror says of itself: its health, and a sentence whenever something changes."""

from __future__ import annotations

from rtagent.errors import PlacementConflict, PlacementError
from rtagent.model.health import Status
from rtagent.placement import codes
from rtagent.placement.synchroniser import Synced
from rtagent.ports import Reporter

#: The mirror's name in health and metrics.
PART = "placement"


class Report:
    """Says a thing once, however often it is tried again."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._status = Status.PASS
        self._kind: object = None

    def tell(self, synced: Synced, seconds_behind: float) -> None:
        """:param seconds_behind: how old the oldest change is that Placement does not show."""
        if synced.problems:
            passing = all(map(_passes, synced.problems))
            text = "; ".join(problem.message for problem in synced.problems)
            # Messages of one and the same failure differ (addresses, times); its kind does not.
            kind = tuple((type(p), p.kwargs.get("code")) for p in synced.problems)
            status = Status.WARN if passing else Status.FAIL
            self._note(status, f"{seconds_behind:.0f} s behind, claims go on: {text}", kind)
        elif synced.unknown_traits:
            names = ", ".join(sorted(synced.unknown_traits))
            self._note(Status.WARN, f"left out traits that Placement does not know: {names}", names)
        else:
            self._note(Status.PASS, "", None)

    def _note(self, status: Status, output: str, kind: object) -> None:
        self._reporter.health(PART, status, output)
        # A new status is said by who is told of it.
        if status == self._status and kind != self._kind:
            self._reporter.said("warning", f"placement: {output}")
        self._status, self._kind = status, kind


def _passes(problem: PlacementError) -> bool:
    """Whether it may go by without an operator."""
    in_use = problem.kwargs.get("code") in (codes.INVENTORY_IN_USE, codes.PROVIDER_IN_USE)
    return problem.retriable or in_use or isinstance(problem, PlacementConflict)
