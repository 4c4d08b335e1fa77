"""PageSources: what pages and documents show in addition to the published state."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn

from rtagent.errors import Unavailable
from rtagent.model.base import Value
from rtagent.model.claim import Claim, HistoryPage
from rtagent.model.decision import Decision
from rtagent.model.device import NO_ROOT_PORTS, RootPorts
from rtagent.model.guest import DomainDocument, GuestComparison
from rtagent.model.node_state import NodeState
from rtagent.model.timeline import TimelineView


def _unavailable(*_: object) -> NoReturn:
    raise Unavailable("this is not available here")


def _no_timeline() -> TimelineView:
    now = datetime.now(UTC)
    return TimelineView(now=now, since=now)


class PageSources(Value, frozen=True, kw_only=True):
    """The callables return at once and without a lock of the tracker; `history` alone reads the
    database, in bounded time.

    :ivar history: the newest events of a claim, or of all claims (None), before a number.
    :ivar timeline: the last hour.
    :ivar document: the domain of an owner, as it was last read.
    :ivar comparison: the guest that a claim determines, compared with that domain.
    :ivar test_claim: decides the arguments of the RPC method of that name on the published state.
    :ivar root_ports: of the host's devices, as last observed.
    :ivar now: the time, for ages.
    """

    history: Callable[[NodeState, str | None, int | None], HistoryPage] = _unavailable
    timeline: Callable[[], TimelineView] = _no_timeline
    document: Callable[[str], DomainDocument | None] = lambda _: None
    comparison: Callable[[NodeState, Claim, DomainDocument | None], GuestComparison] = lambda *_: (
        GuestComparison(lines=())
    )
    test_claim: Callable[[Mapping[str, Any]], Decision] = _unavailable
    root_ports: Callable[[], RootPorts] = lambda: NO_ROOT_PORTS
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
