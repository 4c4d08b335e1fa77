"""The difference between the clocks of a caller and of a server, which ``ping`` shows."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any


def clock_text(now: datetime) -> str:
    """Return a time in UTC, to the millisecond, as ``2026-01-31T00:00:00.000Z``."""
    text = now.astimezone(UTC).isoformat(timespec="milliseconds")
    return f"{text.removesuffix('+00:00')}Z"


def clock_skew(ping: Callable[[], Mapping[str, Any]]) -> float:
    """Return the seconds by which this machine's clock is ahead of the server's.

    The error is at most half of the time that the call takes.

    :param ping: calls the server and returns its reply.
    """
    before = datetime.now(UTC)
    reply = ping()
    after = datetime.now(UTC)
    middle = before + (after - before) / 2
    return (middle - datetime.fromisoformat(reply["time"])).total_seconds()
