"""Reboot: the time after a reboot of the host for which guests are awaited."""

from collections.abc import Container, Iterable
from datetime import datetime

from rtagent.model.base import Value
from rtagent.model.claim import ACTIVE, Claim

#: The flag of a claim whose guest is awaited.
FLAG = "reboot"


class Reboot(Value, frozen=True, kw_only=True):
    """:ivar at: when the agent first ran after the reboot.
    :ivar until: when guests are no longer awaited, on the monotonic clock.
    """

    at: datetime
    until: float

    def awaits(self, claim: Claim) -> bool:
        """Return whether the guest of a claim may not be back yet: it was here before."""
        return claim.state == ACTIVE and claim.suspect is None and claim.created_at < self.at

    def awaited(self, claims: Iterable[Claim], present: Container[str]) -> frozenset[str]:
        """Return the claims whose guests are not back. :param present: uuids of domains."""
        return frozenset(
            each.uuid for each in claims if self.awaits(each) and each.owner_id not in present
        )


def reboot(
    rebooted_at: datetime | None, now: datetime, monotonic: float, timeout: int
) -> Reboot | None:
    """Return the reboot after which guests are still awaited; None: there is none.

    :param timeout: seconds. A clock that was set back since makes it no longer than this.
    """
    if rebooted_at is None:
        return None
    left = timeout - max(0.0, (now - rebooted_at).total_seconds())
    return Reboot(at=rebooted_at, until=monotonic + left) if left > 0 else None
