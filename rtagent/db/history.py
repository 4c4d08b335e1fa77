"""Rows of ``claim_events``: the history of claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Dialect, func, insert, select

from rtagent.db.checked_rows import LONG_AGO, CheckedColumns, with_undecodable
from rtagent.db.schema import claim_events, to_document
from rtagent.db.transaction import Statement
from rtagent.model.change import Change, Event
from rtagent.model.claim import Claim
from rtagent.model.claim_event import ClaimEvent, ClaimFacts, HistoryPage, NumberedEvent

_COLUMNS = ClaimEvent.__struct_fields__

_CHECKED = CheckedColumns(claim_events, _COLUMNS, None)
_UNKNOWN = ClaimFacts(state="", suspect=None, vcpus=0, pcpus=0, memory_mb=0, disk_mb=0)

#: The number of rows, of all nodes, that one read of the newest events looks at.
SPAN = 50_000

_decode_facts = msgspec.json.Decoder(ClaimFacts).decode


def claim_events_of(changes: Sequence[Change]) -> tuple[ClaimEvent, ...]:
    """Return the events of these changes, in their order."""
    return tuple(_claim_event(event, change) for change in changes for event in change.events)


class HistoryWriter:
    """Append events in an open transaction."""

    def __init__(self, dialect: Dialect) -> None:
        # Inline: the ids that the database generates are not needed.
        self._insert = Statement(dialect, insert(claim_events).inline(), _COLUMNS)

    def write(self, connection: Connection, events: Sequence[ClaimEvent]) -> None:
        """Append the events of a commit."""
        self._insert.run(connection, list(map(_encode, events)))


def read_history(
    connection: Connection, node_uuid: str, claim_uuid: str | None
) -> tuple[ClaimEvent, ...]:
    """Read the events of a claim, or of all claims of the node, oldest first."""
    query = select(*_CHECKED.selected).where(claim_events.c.node_uuid == node_uuid)
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
    query = select(number, *_CHECKED.selected).where(claim_events.c.node_uuid == node_uuid)
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


def _claim_event(event: Event, change: Change) -> ClaimEvent:
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


def _encode(event: ClaimEvent) -> dict[str, Any]:
    fields = {name: getattr(event, name) for name in _COLUMNS}
    fields["before"] = None if event.before is None else to_document(event.before)
    fields["after"] = to_document(event.after)
    return fields


def _decode(row: Sequence[Any]) -> ClaimEvent:
    """Return the event of a row, with the readable columns of one that is damaged."""
    checked = _CHECKED.read(row)
    fields, faults = dict(checked.values), checked.faults
    for name in ("before", "after"):
        text = fields[name]
        try:
            fields[name] = None if text is None else _decode_facts(text)
        except msgspec.MsgspecError as error:
            fields[name] = None
            faults = with_undecodable(faults, name, error)
    if faults:
        fields = {name: fields[name] or "" for name in _COLUMNS} | {
            "at": fields["at"] or LONG_AGO,
            "before": fields["before"],
            "after": fields["after"] or _UNKNOWN,
            "reason": f"the record of this event is damaged: {', '.join(faults)}",
        }
    return ClaimEvent(**fields)
