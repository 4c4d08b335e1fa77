"""Wanted: what a scheduler requests from an agent, or has to correct there."""

from __future__ import annotations

from rtagent.model.base import Value
from rtagent.scheduler.tracked_host import TrackedHost

#: The time for which a message must be missing before the agent is asked, in seconds. The threads
#: that serve messages may overtake each other.
GAP = 1.0
#: The shortest time between two questions to one agent, in seconds. It answers after at most
#: ``report_jitter``.
ASK_AGAIN = 10.0


class Wanted(Value, frozen=True, kw_only=True):
    """A request for a report, and what the report must include; or a correction.

    :ivar host: None: all agents. :ivar instances: the whole list of instances.
    :ivar forced_down: what the agent must record; None: nothing, a report is wanted.
    """

    host: str | None
    description: bool = False
    instances: bool = False
    forced_down: bool | None = None


def wanted_of(host: TrackedHost, now: float) -> Wanted | None:
    """Return the request for the agent of a host, and note its time; None: nothing is missing.

    :param now: on the monotonic clock.
    """
    if not (host.lacks_instances or host.state is None):
        host.lacking_since = None
    elif host.lacking_since is None:
        host.lacking_since = now
    gap = host.lacking_since is not None and now >= host.lacking_since + GAP
    waits = host.waits or host.doubted_since is not None
    if not (waits or gap) or (host.asked is not None and now < host.asked + ASK_AGAIN):
        return None
    host.asked = now
    description = waits or host.state is None
    return Wanted(host=host.host, description=description, instances=host.lacks_instances)
