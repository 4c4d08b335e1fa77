"""Spans: which times a server has forgotten calls of."""

from __future__ import annotations

#: Times that are no more than this apart form one span, in milliseconds.
GAP = 300_000
#: The number of spans that are kept. If there are more, the two oldest ones become one.
MOST = 100


class Spans:
    """Contains every time that was added, and as few others as `MOST` spans allow.

    Times are milliseconds. Not thread-safe.
    """

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []  # first and last time, in order, and apart

    def __contains__(self, time: int) -> bool:
        return any(first <= time <= last for first, last in reversed(self._spans))

    def __len__(self) -> int:
        return len(self._spans)

    def add(self, time: int) -> None:
        """Add a time. Fast if it extends the newest span."""
        if self._spans and self._spans[-1][0] <= time <= self._spans[-1][1] + GAP:
            first, last = self._spans[-1]
            self._spans[-1] = first, max(last, time)
            return
        apart, first, last = [], time, time
        for span in self._spans:
            if span[0] - GAP <= time <= span[1] + GAP:
                first, last = min(first, span[0]), max(last, span[1])
            else:
                apart.append(span)
        self._spans = sorted([*apart, (first, last)])
        if len(self._spans) > MOST:
            oldest, second, *others = self._spans
            self._spans = [(oldest[0], second[1]), *others]
