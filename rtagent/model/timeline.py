"""The timeline: what has happened on a node within the last hour."""

from datetime import datetime
from typing import Final, Literal

from rtagent.model.base import Value
from rtagent.model.health import Status

AUDIT: Final = "audit"
REFUSAL: Final = "refusal"
OUTAGE: Final = "outage"
MOVE: Final = "move"
CLAIM: Final = "claim"

Kind = Literal["audit", "refusal", "outage", "move", "claim"]
#: In the order in which people read them.
ENTRY_KIND: tuple[Kind, ...] = (OUTAGE, REFUSAL, MOVE, AUDIT, CLAIM)


class TimelineEntry(Value, frozen=True, kw_only=True):
    """One entry.

    :ivar kind: one of `ENTRY_KIND`. :ivar at: when it began.
    :ivar until: when it ended; None: an outage that lasts.
    :ivar status: pass: as intended; warn, fail: an operator should look at it.
    :ivar subject: of an audit its cause; of a refusal its code and resource; of an outage the part
        of the agent; of a move its type and status; of claims the action.
    :ivar summary: a sentence. For several events of one subject, that of the last one.
    :ivar number: how many events of the same subject there were in this minute.
    :ivar instance_uuid: of a move.
    """

    kind: Kind
    at: datetime
    until: datetime | None
    status: Status
    subject: str
    summary: str
    number: int = 1
    instance_uuid: str | None = None


class TimelineView(Value, frozen=True, kw_only=True):
    """The timeline at one moment.

    :ivar now: that moment. :ivar since: the entries are complete from here on.
    :ivar entries: newest first.
    """

    now: datetime
    since: datetime
    entries: tuple[TimelineEntry, ...] = ()
