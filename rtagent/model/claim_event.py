"""The history of claims, as it is recorded."""

from __future__ import annotations

from datetime import datetime

from rtagent.model.base import Value


class ClaimFacts(Value, frozen=True, kw_only=True):
    """The part of a claim that its history records.

    :ivar migration_uuid: the move that it took part in.
    :ivar vcpus: shared vCPUs. :ivar pcpus: dedicated CPUs. :ivar memory_mb: MB. :ivar disk_mb: MB.
    """

    state: str
    suspect: str | None
    vcpus: int
    pcpus: int
    memory_mb: int
    disk_mb: int
    migration_uuid: str | None = None


class ClaimEvent(Value, frozen=True, kw_only=True):
    """An event of a claim: actor, action and time, and the claim before and after it.

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


class NumberedEvent(Value, frozen=True, kw_only=True):
    """:ivar number: in the order in which events were recorded; of one database."""

    number: int
    event: ClaimEvent


class HistoryPage(Value, frozen=True, kw_only=True):
    """A part of a history, newest event first.

    :ivar older: the number before which older events may be found; None: there are none.
    """

    events: tuple[NumberedEvent, ...] = ()
    older: int | None = None
