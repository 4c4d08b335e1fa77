"""Timeline: the audits, refusals, outages and moves of the last hour, in bounded memory."""

import threading
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from rtagent.audit import AuditSummary
from rtagent.model.change import Change
from rtagent.model.claim import Claim
from rtagent.model.health import Status
from rtagent.model.migration import ERROR, Migration
from rtagent.model.timeline import (
    AUDIT,
    CLAIM,
    MOVE,
    OUTAGE,
    REFUSAL,
    Kind,
    TimelineEntry,
    TimelineView,
)
from rtagent.ports import Clock

#: How far back it reaches.
SPAN = timedelta(hours=1)
#: How many audits, moves and outages that have ended are kept; each kind has its own bound.
EVENTS = 1000
#: How many counts by minute are kept.
COUNTS = 4000
#: Characters of a summary.
LONGEST = 2000

_Key = tuple[datetime, Kind, str]


class Timeline:
    """Thread-safe; each method returns at once.

    Refusals and steps of claims are counted by minute and subject, so that thousands a second take
    no more memory than a few.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._started = clock, clock.now()
        self._lock = threading.Lock()
        self._events: dict[Kind, deque[TimelineEntry]] = {
            kind: deque() for kind in (AUDIT, MOVE, OUTAGE)
        }
        self._lasting: dict[str, TimelineEntry] = {}
        self._counts: OrderedDict[_Key, TimelineEntry] = OrderedDict()
        #: Entries that began before may have been dropped.
        self._complete_since = self._started

    # -- what happens -----------------------------------------------------------------------------

    def audited(self, summary: AuditSummary) -> None:
        """Add an audit that has ended now."""
        now = self._clock.now()
        began = now - timedelta(seconds=summary.seconds)
        status = Status.PASS if summary.good and not summary.problems else Status.WARN
        with self._lock:
            self._append(_entry(AUDIT, began, now, status, summary.cause, str(summary)))

    def refused(self, reasons: Sequence[Mapping[str, Any]]) -> None:
        """Count the reasons of one refusal."""
        for subject, message in {_subject(each): each["message"] for each in reasons}.items():
            self._count(REFUSAL, subject, 1, message, Status.WARN)

    def changed(self, changes: Sequence[Change]) -> None:
        """Add the moves, and count the steps of claims, of published changes."""
        events = [event for change in changes for event in change.events]
        last = {event.action: event.after for event in events}
        for action, number in Counter(event.action for event in events).items():
            self._count(CLAIM, action, number, f"{action} of {_server(last[action])}", Status.PASS)
        moves = [(change.at, each) for change in changes for each in change.migrations]
        with self._lock:
            for at, move in moves:
                self._append(_move_entry(move, at))

    def health(self, part: str, status: Status, output: str) -> None:
        """Note that the status of a part has changed."""
        now = self._clock.now()
        with self._lock:
            ended = self._lasting.pop(part, None)
            if ended is not None:
                self._append(replace(ended, until=now))
            if status != Status.PASS:
                self._lasting[part] = _entry(OUTAGE, now, None, status, part, output)

    # -- what it shows ----------------------------------------------------------------------------

    def view(self) -> TimelineView:
        """Return the entries of the last hour, newest first."""
        now = self._clock.now()
        with self._lock:
            since = max(self._complete_since, now - SPAN)
            found = [each for each in self._entries() if each.until is None or each.until >= since]
        found.reverse()  # of the same time, the last one that was added comes first
        found.sort(key=lambda each: each.at, reverse=True)
        return TimelineView(now=now, since=since, entries=tuple(found))

    def _entries(self) -> Iterator[TimelineEntry]:
        yield from self._lasting.values()
        for events in self._events.values():
            yield from events
        yield from self._counts.values()

    # -- bounds -----------------------------------------------------------------------------------

    def _append(self, entry: TimelineEntry) -> None:
        events = self._events[entry.kind]
        events.append(entry)
        oldest = entry.at - SPAN
        while events and (events[0].until or entry.at) < oldest:
            events.popleft()
        if len(events) > EVENTS:
            self._dropped(events.popleft())

    def _count(self, kind: Kind, subject: str, number: int, summary: str, status: Status) -> None:
        now = self._clock.now()
        key = (now.replace(second=0, microsecond=0), kind, subject)
        with self._lock:
            known = self._counts.get(key)
            at, before = (now, 0) if known is None else (known.at, known.number)
            entry = _entry(kind, at, now, status, subject, summary)
            self._counts[key] = replace(entry, number=number + before)
            while len(self._counts) > COUNTS:
                self._dropped(self._counts.popitem(last=False)[1])

    def _dropped(self, entry: TimelineEntry) -> None:
        self._complete_since = max(self._complete_since, entry.until or entry.at)


def _entry(
    kind: Kind, at: datetime, until: datetime | None, status: Status, subject: str, summary: str
) -> TimelineEntry:
    """Return an entry whose summary is of bounded length."""
    return TimelineEntry(
        kind=kind, at=at, until=until, status=status, subject=subject, summary=summary[:LONGEST]
    )


def _subject(reason: Mapping[str, Any]) -> str:
    return f"{reason['code']} {reason['resource']}"[:255]


def _server(claim: Claim) -> str:
    name = claim.instance.display_name
    return f"{name} ({claim.owner_id})" if name else claim.owner_id


def _move_entry(move: Migration, at: datetime) -> TimelineEntry:
    source = move.source_compute or "?"
    dest = move.dest_compute or "?"
    status = Status.FAIL if move.status == ERROR else Status.PASS
    kind, places = move.migration_type, f"from {source} to {dest}"
    summary = f"{kind} of {move.instance_uuid} {places}: {move.status}"
    entry = _entry(MOVE, at, at, status, f"{kind} {move.status}", summary)
    return replace(entry, instance_uuid=move.instance_uuid)
