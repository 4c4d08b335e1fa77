"""EventStream: reads ``/events`` as a browser's ``EventSource`` does: no gaps, no repetitions."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from rtagent.model.base import Value

#: Returns the text at ``/events`` for these filters.
Read = Callable[[Mapping[str, str]], str]


class Received(Value, frozen=True, kw_only=True):
    """What one request has brought.

    :ivar events: documents. :ivar gap: events that are not there any more, see ``/events``; None:
        there is no gap. :ivar complete: there is no more at present.
    :ivar retry: seconds until the next request.
    """

    events: tuple[Mapping[str, Any], ...]
    gap: Mapping[str, Any] | None
    complete: bool
    retry: float


class EventStream:
    """:ivar place: the id of the last event that was read, or "". A reader that begins there later
    continues the stream.
    """

    def __init__(self, read: Read, *, place: str = "", newest: int | None = None) -> None:
        """:param place: begin after it. :param newest: without a place: begin with so many of the
        last events.
        """
        self._read, self.place, self._newest = read, place, newest

    def next(self, types: str | None = None) -> Received:
        """Request the next events. :raises RtAgentError: what the read raises."""
        filters: dict[str, str] = {}
        if self.place:
            filters["last_event_id"] = self.place
        elif self._newest is not None:
            filters["newest"] = str(self._newest)
        if types is not None:
            filters["type"] = types
        received, self.place = _parse(self._read(filters), self.place)
        return received


def _parse(text: str, place: str) -> tuple[Received, str]:
    events: list[Mapping[str, Any]] = []
    gap, complete, retry = None, False, 1.0
    for block in text.split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in block.splitlines())
        if "data" in fields:
            document = json.loads(fields["data"])
            if fields.get("event") == "gap":
                gap = document
            else:
                events.append(document)
        place = fields.get("id", place)
        complete = complete or fields.get("") == "complete"
        retry = int(fields["retry"]) / 1000 if "retry" in fields else retry
    return Received(events=tuple(events), gap=gap, complete=complete, retry=retry), place
