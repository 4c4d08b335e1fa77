"""Recorded events: what a store has, for those who publish or show them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rtagent.model.base import Value


class RecordedEvents(Value, frozen=True, kw_only=True):
    """The events of one commit.

    :ivar last: the number of the last one. :ivar epoch: of all of them.
    :ivar documents: each an `EventDocument` in JSON.
    """

    last: int
    epoch: int
    documents: tuple[bytes, ...]

    @property
    def first(self) -> int:
        """The number of the first event."""
        return self.last - len(self.documents) + 1


def credible(rows: Iterable[RecordedEvents], last: int) -> list[RecordedEvents]:
    """Return the rows without the damaged ones whose number is higher than that of the last event.
    Nothing follows them, so a reader that goes on there would get no more events.
    """
    return [row for row in rows if row.documents or row.last <= last]
