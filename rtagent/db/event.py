"""One line of a claim's history, as it is kept."""

from __future__ import annotations

from datetime import datetime

from rtagent.model.base import Value
from rtagent.model.change import Change, Event
from rtagent.model.claim import Claim


class ClaimFacts(Value, frozen=True, kw_only=True):
    """What of a claim its history keeps.

    :ivar migration_uuid: the move that it took part in.
    :ivar vcpus: shared ones. :ivar pcpus: dedicated CPUs. :ivar memory_mb: MB. :ivar disk_mb: MB.
    """

    state: str
    suspect: str | None
    vcpus: int
    pcpus: int
    memory_mb: int
    disk_mb: int
    migration_uuid: str | None = None


class ClaimEvent(Value, frozen=True, kw_only=True):
    """Who did what to a claim, when, and what it was before and after.

    :ivar before: None at the claim's creation.
    :ivar actor: a user's id, or the agent's own part (``audit``).
    """

    claim_uuid: str
    node_uuid: str
    action: str
    at: datetime
    actor: str
    request_id: str
    before: ClaimFacts | None
    after: ClaimFacts
    reason: str


def claim_event(event: Event, change: Change) -> ClaimEvent:
    """An event of a change, ready to be kept."""
    return ClaimEvent(
        claim_uuid=event.after.uuid,
        node_uuid=event.after.node_uuid,
        action=event.action,
        at=change.at,
        actor=change.actor,
        request_id=change.request_id,
        before=None if event.before is None else _facts(event.before),
        after=_facts(event.after),
        reason=event.reason,
    )


def _facts(claim: Claim) -> ClaimFacts:
    return ClaimFacts(
        state=claim.state,
        suspect=claim.suspect,
        vcpus=claim.vcpus,
        pcpus=claim.pcpus,
        memory_mb=claim.memory_mb,
        disk_mb=claim.disk_mb,
        migration_uuid=claim.migration_uuid,
    )
