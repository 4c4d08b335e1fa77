"""What the read API shows, as the service puts it together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import CollectorRegistry

from rtagent.errors import RtAgentError
from rtagent.model.base import Value
from rtagent.model.health import Check
from rtagent.model.host import HostState


class Sources(Value, frozen=True, kw_only=True):
    """Callables that return at once, without a lock and without a remote call.

    :ivar snapshot: the published state. :ivar stale: whether it may be behind the database.
    :ivar checks: the agent's parts. :ivar held_back: why claims are not granted now, or None.
    :ivar registry: the process's own metrics.
    """

    snapshot: Callable[[], HostState]
    stale: Callable[[], bool]
    checks: Callable[[], Sequence[Check]]
    held_back: Callable[[], RtAgentError | None]
    registry: CollectorRegistry
