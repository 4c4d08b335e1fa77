"""The paths of the read API, and the view that answers each path."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote

from prometheus_client import CollectorRegistry

from rtagent.api import claims, health, metrics, nodes, numa, pci, resources
from rtagent.api.reply import JSON, Reply, document, problem, status_of
from rtagent.errors import InvalidRequest, RtAgentError
from rtagent.model.base import Value
from rtagent.model.health import Check
from rtagent.model.node_state import NodeState

Query = Mapping[str, str]

#: What is at ``/allocations`` before the first audit of the allocations in Placement.
NO_AUDIT: Mapping[str, Any] = {"at": None, "counts": {}, "allocations": (), "problems": ()}


class Sources(Value, frozen=True, kw_only=True):
    """The sources of the views. The callables return at once, without a lock or a remote call.

    :ivar snapshot: the published state. :ivar stale: whether the database may be newer.
    :ivar checks: the health of the agent's parts.
    :ivar creation_error: the error that calls that create claims get now, or None.
    :ivar registry: the metrics of the process.
    :ivar allocations: the last audit of the allocations in Placement.
    """

    snapshot: Callable[[], NodeState]
    stale: Callable[[], bool]
    checks: Callable[[], Sequence[Check]]
    creation_error: Callable[[], RtAgentError | None]
    registry: CollectorRegistry
    allocations: Callable[[], Mapping[str, Any]]


class View(Value, frozen=True, kw_only=True):
    """The agent's data for one request, so that the whole reply shows the same state."""

    sources: Sources
    state: NodeState
    stale: bool

    def reply(
        self,
        content: Mapping[str, Any],
        status: HTTPStatus = HTTPStatus.OK,
        media_type: str = JSON,
    ) -> Reply:
        """The content with ``revision`` and ``stale`` of the state that it was made from."""
        whole = {**content, "revision": self.state.revision, "stale": self.stale}
        return document(whole, status, media_type)


def _health(view: View) -> Reply:
    checks = view.sources.checks()
    status = health.status(health.healthy(checks))
    return view.reply(health.health(checks), status, health.MEDIA_TYPE)


def _ready(view: View) -> Reply:
    error = view.sources.creation_error()
    return view.reply(health.readiness(error), health.status(error is None))


def _metrics(view: View) -> Reply:
    checks, registry = view.sources.checks(), view.sources.registry
    body = metrics.text(view.state, view.stale, checks, registry)
    return Reply(body=body, media_type=metrics.MEDIA_TYPE)


#: ``/NAME``
COLLECTIONS: Mapping[str, Callable[[View, Query], Reply]] = {
    "nodes": lambda view, _: view.reply(nodes.nodes(view.state)),
    "claims": lambda view, query: view.reply(claims.claims(view.state, query)),
    "pci": lambda view, query: view.reply(pci.devices(view.state, query)),
    "resources": lambda view, _: view.reply(resources.resources(view.state)),
    "migrations": lambda view, query: view.reply(claims.migrations(view.state, query)),
    "orphans": lambda view, _: view.reply(claims.orphans(view.state)),
    "drift": lambda view, _: view.reply(claims.drift(view.state)),
    "numa": lambda view, _: view.reply(numa.hosts(view.state)),
    "allocations": lambda view, _: view.reply(view.sources.allocations()),
    "health": lambda view, _: _health(view),
    "ready": lambda view, _: _ready(view),
    "metrics": lambda view, _: _metrics(view),
}

#: ``/NAME/ITEM``
ITEMS: Mapping[str, Callable[[View, str], Reply]] = {
    "nodes": lambda view, name: view.reply(nodes.node(view.state, name)),
    "claims": lambda view, uuid: view.reply(claims.claim(view.state, uuid)),
    "pci": lambda view, address: view.reply(pci.device(view.state, address)),
    "numa": lambda view, name: view.reply(numa.host(view.state, name)),
}

#: The filters of each collection that has any.
FILTERS: Mapping[str, frozenset[str]] = {
    "claims": claims.CLAIM_FILTERS,
    "migrations": claims.MIGRATION_FILTERS,
    "pci": pci.FILTERS,
}


def answer(sources: Sources, target: str) -> Reply:
    """The reply to a GET.

    :param target: path and query as in the request line, percent-encoded.
    """
    stale = sources.stale()
    view = View(sources=sources, state=sources.snapshot(), stale=stale)
    try:
        return _dispatch(view, target)
    except RtAgentError as error:
        return view.reply(error.as_dict(), status_of(error))


def _dispatch(view: View, target: str) -> Reply:
    path, _, query = target.partition("?")
    segments = [unquote(part) for part in path.strip("/").split("/")]
    if len(segments) == 1 and segments[0] in COLLECTIONS:
        return COLLECTIONS[segments[0]](view, _query(segments[0], query))
    if len(segments) == 2 and segments[0] in ITEMS:
        return ITEMS[segments[0]](view, segments[1])
    known = ", ".join(f"/{name}" for name in COLLECTIONS)
    missing = problem(HTTPStatus.NOT_FOUND, f"nothing is at {path}; there are {known}")
    return view.reply(missing, HTTPStatus.NOT_FOUND)


def _query(name: str, text: str) -> Query:
    query = dict(parse_qsl(text, keep_blank_values=True))
    allowed = FILTERS.get(name, frozenset())
    unknown = sorted(query.keys() - allowed)
    if unknown:
        rule = f"not a filter of /{name}; there are: {', '.join(sorted(allowed)) or 'none'}"
        raise InvalidRequest(
            method=f"GET /{name}", errors=[{"path": each, "message": rule} for each in unknown]
        )
    return query
