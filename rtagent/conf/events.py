"""[events]: the recorded events."""

from __future__ import annotations

from oslo_config import cfg

from rtagent.model.base import Value

GROUP = "events"

OPTS = [
    cfg.IntOpt(
        "kept",
        default=10_000,
        min=1000,
        max=1_000_000,
        help="""
How many of the last events of the node stay in the database.

Notifications that the message broker has not accepted yet, and readers of ``/events`` that come
back later, find events among these. Older ones are removed, also if they were not published: then
the metric ``rtagent_events_dropped_total`` counts them. An event takes less than 1 KiB.

A change takes effect at the next start.
""",
    ),
]


class Events(Value, frozen=True, kw_only=True):
    """:ivar kept: how many of the last events stay."""

    kept: int
