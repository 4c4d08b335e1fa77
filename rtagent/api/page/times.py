"""Times as people read them."""

from __future__ import annotations

from datetime import datetime

from rtagent.model.base import Value

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


class Moment(Value, frozen=True, kw_only=True):
    """A time. :ivar iso: for programs. :ivar clock: for people. :ivar words: how far it is away."""

    iso: str
    clock: str
    words: str


def moment(at: datetime, now: datetime) -> Moment:
    """Return a time that is past, or to come."""
    seconds = (now - at).total_seconds()
    words = f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"
    return Moment(
        iso=at.isoformat(timespec="milliseconds"),
        clock=f"{at:%Y-%m-%d %H:%M:%S} UTC",
        words=words,
    )


def duration(seconds: float) -> str:
    """Return a duration with one unit, or two if that says more: ``3 h 20 min``, ``45 s``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.001 else "0 s"
    left = int(seconds)
    at = next(at for at, (size, _) in enumerate(_UNITS) if left >= size)
    size, unit = _UNITS[at]
    number, rest = divmod(left, size)
    if number < 10 and at + 1 < len(_UNITS):
        smaller, more = _UNITS[at + 1]
        if rest >= smaller:
            return f"{number} {unit} {rest // smaller} {more}"
    return f"{number} {unit}"
