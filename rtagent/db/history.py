"""Rows of ``claim_events``: the history of claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from rtagent.db.checked_rows import LONG_AGO
from rtagent.db.schema import claim_events
from rtagent.db.tables import HISTORY
from rtagent.model.claim_event import ClaimEvent, ClaimFacts, HistoryPage, NumberedEvent

_UNKNOWN = ClaimFacts(state="", suspect=None, vcpus=0, pcpus=0, memory_mb=0, disk_mb=0)

#: The number of rows, of all nodes, that one read of the newest events looks at.
SPAN = 50_000


def read_history(
    connection: Connection, node_uuid: str, claim_uuid: str | None
) -> tuple[ClaimEvent, ...]:
    """Read the events of a claim, or of all claims of the node, oldest first."""
    query = select(*HISTORY.checked.selected).where(claim_events.c.node_uuid == node_uuid)
    if claim_uuid is not None:
        query = query.where(claim_events.c.claim_uuid == claim_uuid)
    return tuple(map(_decode, connection.execute(query.order_by(claim_events.c.id))))


def read_page(
    connection: Connection, node_uuid: str, claim_uuid: str | None, before: int | None, limit: int
) -> HistoryPage:
    """Read some events, newest first.

    :param claim_uuid: None: of all claims of the node. Then the table is read in the order of its
        key, and `SPAN` rows at most, because other nodes of a shared database write to it, too.
    :param before: only events with a lower number; None: the newest. :param limit: of the events.
    """
    number = claim_events.c.id
    query = select(number, *HISTORY.checked.selected).where(claim_events.c.node_uuid == node_uuid)
    lowest = 0
    if claim_uuid is not None:
        query = query.where(claim_events.c.claim_uuid == claim_uuid)
    else:
        highest = connection.execute(select(func.max(number))).scalar() or 0
        lowest = max(0, min(highest + 1, before or highest + 1) - SPAN)
        query = query.where(number >= lowest)
    if before is not None:
        query = query.where(number < before)
    rows = connection.execute(query.order_by(number.desc()).limit(limit)).all()
    events = tuple(NumberedEvent(number=row[0], event=_decode(row[1:])) for row in rows)
    if len(events) == limit:
        return HistoryPage(events=events, older=events[-1].number)
    return HistoryPage(events=events, older=lowest or None)


def _decode(raw: Sequence[Any]) -> ClaimEvent:
    """Return the event of a row, with the readable columns of one that is damaged."""
    row = HISTORY.decode(raw)
    fields = dict(row.values)
    if row.faults:
        fields |= {
            **{name: "" for name in HISTORY.columns if fields[name] is None},
            "at": fields["at"] or LONG_AGO,
            "before": fields["before"],
            "after": fields["after"] or _UNKNOWN,
            "reason": f"the record of this event is damaged: {', '.join(row.faults)}",
        }
    return ClaimEvent(**fields)
