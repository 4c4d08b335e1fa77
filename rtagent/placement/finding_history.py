"""FindingHistory: for how long each finding of the allocation audits has been as it is. Pure.

An allocation is written before its claim is made, and may be removed after its claim has ended. So
a finding counts only once it has been seen unchanged for a while. The time is this agent's own: the
clock of Placement's host does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from rtagent.model.base import Value
from rtagent.placement.allocation_audit import Finding, Verdict


class SeenFinding(Value, frozen=True, kw_only=True):
    """When a finding was first seen as it is now.

    :ivar since: seconds of the monotonic clock. :ivar at: the time of day, for information.
    """

    verdict: Verdict
    generation: int | None
    since: float
    at: datetime


class FindingHistory(Value, frozen=True, kw_only=True):
    """The findings that are not `Verdict.MATCHING`, by consumer."""

    by_consumer: Mapping[str, SeenFinding] = {}

    def after(self, findings: Iterable[Finding], since: float, at: datetime) -> FindingHistory:
        """Add the findings of an audit, and forget those that it did not have.

        :param since: when the audit began.
        """
        seen: dict[str, SeenFinding] = {}
        for finding in findings:
            if finding.verdict == Verdict.MATCHING:
                continue
            uuid, generation = finding.consumer.uuid, finding.consumer.generation
            known = self.by_consumer.get(uuid)
            same = known is not None and (known.verdict, known.generation) == (
                finding.verdict,
                generation,
            )
            new = SeenFinding(verdict=finding.verdict, generation=generation, since=since, at=at)
            seen[uuid] = known if known is not None and same else new
        return FindingHistory(by_consumer=seen)

    def settled(self, uuid: str, now: float, term: float) -> bool:
        """Whether a consumer's finding has not changed for `term` seconds."""
        known = self.by_consumer.get(uuid)
        return known is not None and now - known.since >= term

    def unsettled_until(self, now: float, term: float) -> float | None:
        """Return when the last finding will be settled, if nothing changes; None: all are."""
        times = [each.since + term for each in self.by_consumer.values()]
        return max((time for time in times if time > now), default=None)
