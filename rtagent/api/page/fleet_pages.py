"""The pages of a scheduler: the fleet, one host, capacity, explain, decisions."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from rtagent.api import scheduler_documents
from rtagent.api.page import capacity, explain, fleet
from rtagent.api.page.queries import PageQuery
from rtagent.api.page.rendering import Content, Later
from rtagent.api.page.routes import Link, Paged, Query, period
from rtagent.model.base import Value
from rtagent.scheduler.decision_log import Decision, LoggedDecision
from rtagent.scheduler.explanation import Explanation
from rtagent.scheduler.fleet_counts import FleetCounts
from rtagent.scheduler.host_state import HostState

#: Decisions on one page, and hosts that one of them names.
ROWS, NAMED = 100, 5
OUTCOMES = ("selected", "failed")
#: Instances of one decision whose weights are shown, unless one is asked for.
INSTANCES = 20
#: Seconds for which a page of many hosts is shown, because reports arrive all the time.
SHOWN = 2
#: Seconds for which a page of the capacity is shown, and for which one request waits for the count.
CAPACITY_SHOWN, PATIENCE = 5, 1.0


class FleetSources(Value, frozen=True, kw_only=True):
    """The sources of the pages and the documents. The callables return at once.

    :ivar hosts: all hosts. :ivar now: the monotonic clock that their ``seen`` is on.
    :ivar down_time: ``service_down_time``. :ivar decisions: the last selections, newest first.
    :ivar decision: finds one, see `DecisionLog`.
    :ivar counts: the room of the fleet. Its replies wait a moment for the count.
    :ivar time: the time of day.
    :ivar explain: explains the arguments of the RPC method of that name; it may wait for Placement.
    :ivar aside: why messages of service hosts are set aside.
    """

    hosts: Callable[[], Sequence[HostState]]
    now: Callable[[], float]
    down_time: Callable[[], float]
    decisions: Callable[[], Sequence[LoggedDecision]]
    decision: Callable[[str], Decision]
    counts: FleetCounts
    time: Callable[[], datetime]
    explain: Callable[[Mapping[str, Any]], Explanation]
    aside: Callable[[], Mapping[str, str]] = dict

    @property
    def without_report(self) -> Mapping[str, str]:
        """Why no report of a host can be used, by host."""
        reporting = {host.host for host in self.hosts()}
        return {host: why for host, why in self.aside().items() if host not in reporting}


class FleetView(Paged, Protocol):
    """The data of one request."""

    @property
    def sources(self) -> FleetSources: ...


def _fleet(view: FleetView, query: Query) -> Later:
    sources = view.sources

    def make() -> Content:
        hosts = fleet.fleet(sources.hosts(), sources.now(), sources.down_time())
        return fleet.fleet_page(hosts, query)

    return Later(version=period(sources.time(), SHOWN), make=make)


def _host(view: FleetView, name: str, query: Query) -> Later:
    sources, at = view.sources, view.sources.time()

    def make() -> Content:
        hosts, decisions = sources.hosts(), sources.decisions()
        now, down_time = sources.now(), sources.down_time()
        return fleet.fleet_host_page(hosts, name, now, down_time, at, decisions)

    return Later(version=period(at, SHOWN), make=make)


def _capacity(view: FleetView, query: Query) -> Later:
    """The room of all flavors, or of one. What has changed is counted while it is looked at."""
    sources, waiting = view.sources, view.cache.waiting
    if waiting.acquire(blocking=False):
        try:
            if "flavor" in query:  # it may be one that is counted only if it is asked for
                sources.counts.capacity(query["flavor"], patience=PATIENCE)
            else:
                sources.counts.wait(PATIENCE)
        finally:
            waiting.release()

    def make() -> Content:
        if "flavor" in query:
            return capacity.flavor_page(sources.counts, sources.hosts(), query)
        states, without_report = sources.hosts(), sources.without_report
        return capacity.capacity_page(sources.counts, states, without_report, query)

    return Later(version=period(sources.time(), CAPACITY_SHOWN), make=make)


def _decisions(view: FleetView, query: Query) -> Later:
    sources, at = view.sources, view.sources.time()
    return Later(
        version=period(at, SHOWN), make=lambda: _decisions_page(sources.decisions(), query, at)
    )


def _decisions_page(decisions: Sequence[LoggedDecision], query: Query, now: datetime) -> Content:
    """The last decisions, newest first."""
    asked = PageQuery("/page/decisions", query, {"outcome", "from"})
    outcome = asked.choice("outcome", OUTCOMES)
    failed = [decision for decision in decisions if decision.error]
    selected = [decision for decision in decisions if not decision.error]
    shown = {"": list(decisions), "selected": selected, "failed": failed}[outcome]
    return Content(
        template="decisions.html",
        values={
            **asked.part(shown, ROWS),
            "counts": {"selected": len(selected), "failed": len(failed)},
            "total": len(decisions),
            "outcome": outcome,
            "now": now,
            "named": NAMED,
        },
    )


def _decision(view: FleetView, name: str, query: Query) -> Content:
    """A decision, and what it was made from."""
    made = scheduler_documents.decision(view.sources.decision(name))["decision"]
    shown = [choice for choice in made["choices"] if name in _uuids(choice)]
    values = {
        "made": made,
        "shown": shown or made["choices"][:INSTANCES],
        "now": view.sources.time(),
    }
    return Content(template="decision.html", values=values, live=False)


def _uuids(choice: Mapping[str, Any]) -> tuple[str, str]:
    return choice["instance_uuid"], choice["operation_id"]


def _explain(view: FleetView, query: Query) -> Content:
    """Return the page, uncached. The script does not poll it, because it may wait for Placement."""
    return explain.explain_page(query, view.sources.explain)


#: By name: ``/page/NAME``, and ``""`` for ``/``.
PAGES: Mapping[str, Callable[[FleetView, Query], Content | Later]] = {
    "": _fleet,
    "capacity": _capacity,
    "explain": _explain,
    "decisions": _decisions,
}
#: By name: ``/page/NAME/ITEM``.
ITEMS: Mapping[str, Callable[[FleetView, str, Query], Content | Later]] = {
    "hosts": _host,
    "decisions": _decision,
}

#: They show more than versioned data.
UNCACHED = frozenset(PAGES) | frozenset(ITEMS)

NAVIGATION = (
    Link(name="", label="Hosts"),
    Link(name="capacity", label="Capacity"),
    Link(name="explain", label="Explain"),
    Link(name="decisions", label="Decisions"),
)
