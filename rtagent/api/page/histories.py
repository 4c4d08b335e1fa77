"""The recorded history of claims, as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from rtagent.api.page import quantities
from rtagent.api.page.times import Moment, moment
from rtagent.model.base import Value
from rtagent.model.claim_event import ClaimFacts, NumberedEvent

#: What an event may change: the label, the field, and how its value is written.
_SIZES: tuple[tuple[str, str, Callable[[int], str]], ...] = (
    ("vCPUs", "vcpus", str),
    ("pinned CPUs", "pcpus", str),
    ("memory", "memory_mb", quantities.megabytes),
    ("disk", "disk_mb", quantities.megabytes),
)


class HistoryRow(Value, frozen=True, kw_only=True):
    """One event. :ivar changes: what it changed except the state, each in a few words."""

    number: int
    at: Moment
    claim_uuid: str
    action: str
    before: str
    after: str
    changes: tuple[str, ...]
    actor: str
    request_id: str
    reason: str
    migration: str


def history_rows(events: Sequence[NumberedEvent], now: datetime) -> list[HistoryRow]:
    """Return a row for each event, in their order."""
    return [_row(each, now) for each in events]


def _row(numbered: NumberedEvent, now: datetime) -> HistoryRow:
    event = numbered.event
    return HistoryRow(
        number=numbered.number,
        at=moment(event.at, now),
        claim_uuid=event.claim_uuid,
        action=event.action,
        before=event.before.state if event.before else "",
        after=event.after.state,
        changes=tuple(_changes(event.before, event.after)),
        actor=event.actor,
        request_id=event.request_id,
        reason=event.reason,
        migration=event.after.migration_uuid or "",
    )


def _changes(before: ClaimFacts | None, after: ClaimFacts) -> Iterator[str]:
    """What differs; of a new claim, what it has."""
    for label, field, words in _SIZES:
        was = getattr(before, field) if before else 0
        now = getattr(after, field)
        if before is None and now:
            yield f"{words(now)} {label}"
        elif before is not None and was != now:
            yield f"{label}: {words(was)} → {words(now)}"
    suspected = before.suspect if before else None
    if after.suspect and after.suspect != suspected:
        yield f"suspect: {after.suspect}"
    elif suspected and not after.suspect:
        yield "no longer suspect"
