"""AuditPlan: when allocations are compared with the claims. Pure."""

from __future__ import annotations

import math

from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.placement.jitter import shortened


class AuditPlan(Value, frozen=True, kw_only=True):
    """Times are seconds of one monotonic clock.

    :ivar audited_at: when the last regular audit began; None: there was none yet.
    :ivar recheck_at: when the findings of that audit count, and are looked at once more; infinity:
        there is nothing to look at.
    :ivar requested_at: when an audit is due for another reason.
    :ivar jitter: 0 to 1, see `shortened`: of the time until the next regular audit.
    """

    audited_at: float | None = None
    recheck_at: float = math.inf
    requested_at: float = math.inf
    jitter: float = 1.0

    def due(self, interval: float) -> float:
        """Return when the next audit is due; infinity: never.

        :param interval: the most seconds between regular audits; 0: only the first.
        """
        return min(self.recheck_at, self.requested_at, self._regularly(interval))

    def request(self, at: float) -> AuditPlan:
        """Audit at that time, too, because the policy has changed."""
        return replace(self, requested_at=min(self.requested_at, at))

    def after(
        self, began: float, recheck: float | None, interval: float, jitter: float
    ) -> AuditPlan:
        """Return the plan after an audit.

        What a recheck finds is not looked at once more: on a busy host each audit sees allocations
        whose claims are about to be made.

        :param recheck: when what the audit has found will count; None: it has found nothing new.
        :param jitter: 0 to 1, if it was a regular audit: of the time until the next.
        """
        plan = replace(
            self,
            recheck_at=_later(self.recheck_at, began),
            requested_at=_later(self.requested_at, began),
        )
        if began < self._regularly(interval):
            return plan
        recheck_at = math.inf if recheck is None else recheck
        return replace(plan, audited_at=began, recheck_at=recheck_at, jitter=jitter)

    def _regularly(self, interval: float) -> float:
        if self.audited_at is None:
            return -math.inf
        return self.audited_at + shortened(interval or math.inf, self.jitter)


def _later(due: float, began: float) -> float:
    """Return when something is due after an audit: never, if the audit has done it."""
    return math.inf if began >= due else due
