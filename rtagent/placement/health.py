"""PartHealth: the health of a part that writes to Placement."""

from rtagent.model.health import Status
from rtagent.ports import Reporter


class PartHealth:
    """Reports health, and logs a problem once even if each turn meets it."""

    def __init__(self, part: str, reporter: Reporter) -> None:
        self._part, self._reporter = part, reporter
        self._kind: object = None
        self.status = Status.PASS

    def note(self, status: Status, output: str = "", kind: object = None) -> None:
        """:param kind: of the problem. Messages of one kind differ in addresses and times."""
        self._reporter.health(self._part, status, output)
        # The reporter logs a new status itself.
        if status == self.status and kind != self._kind:
            self._reporter.log("warning", f"{self._part}: {output}")
        self.status, self._kind = status, kind
