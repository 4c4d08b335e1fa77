"""Which view answers which path."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote

from rtagent.api import (
    claims,
    drift,
    health,
    metrics,
    migrations,
    nodes,
    numa,
    orphans,
    pci,
    resources,
)
from rtagent.api.reply import JSON, Reply, document, problem, status_of
from rtagent.api.sources import Sources
from rtagent.errors import InvalidRequest, RtAgentError
from rtagent.model.base import Value
from rtagent.model.host import HostState

Query = Mapping[str, str]


class Look(Value, frozen=True, kw_only=True):
    """One request's look at the agent: everything in the answer is of the same moment."""

    sources: Sources
    state: HostState
    stale: bool

    def tell(
        self,
        content: Mapping[str, Any],
        status: HTTPStatus = HTTPStatus.OK,
        media_type: str = JSON,
    ) -> Reply:
        """The document, with the revision that it was made from."""
        whole = {**content, "revision": self.state.revision, "stale": self.stale}
        return document(whole, status, media_type)


def _health(look: Look) -> Reply:
    checks = look.sources.checks()
    status = health.status(health.healthy(checks))
    return look.tell(health.document(checks), status, health.MEDIA_TYPE)


def _ready(look: Look) -> Reply:
    held_back = look.sources.held_back()
    return look.tell(health.readiness(held_back), health.status(held_back is None))


def _metrics(look: Look) -> Reply:
    checks, registry = look.sources.checks(), look.sources.registry
    body = metrics.text(look.state, look.stale, checks, registry)
    return Reply(body=body, media_type=metrics.MEDIA_TYPE)


#: By the path's only segment.
COLLECTIONS: Mapping[str, Callable[[Look, Query], Reply]] = {
    "nodes": lambda look, _: look.tell(nodes.collection(look.state)),
    "claims": lambda look, query: look.tell(claims.collection(look.state, query)),
    "pci": lambda look, query: look.tell(pci.collection(look.state, query)),
    "resources": lambda look, _: look.tell(resources.collection(look.state)),
    "migrations": lambda look, query: look.tell(migrations.collection(look.state, query)),
    "orphans": lambda look, _: look.tell(orphans.collection(look.state)),
    "drift": lambda look, _: look.tell(drift.collection(look.state)),
    "numa": lambda look, _: look.tell(numa.collection(look.state)),
    "health": lambda look, _: _health(look),
    "ready": lambda look, _: _ready(look),
    "metrics": lambda look, _: _metrics(look),
}

#: By the first of two segments; the second names the member.
MEMBERS: Mapping[str, Callable[[Look, str], Reply]] = {
    "nodes": lambda look, name: look.tell(nodes.member(look.state, name)),
    "claims": lambda look, name: look.tell(claims.member(look.state, name)),
    "pci": lambda look, address: look.tell(pci.member(look.state, address)),
    "numa": lambda look, name: look.tell(numa.member(look.state, name)),
}

#: The filters that a collection takes.
FILTERS: Mapping[str, frozenset[str]] = {
    "claims": claims.FILTERS,
    "migrations": migrations.FILTERS,
    "pci": pci.FILTERS,
}


def answer(sources: Sources, target: str) -> Reply:
    """The answer to a GET.

    :param target: path and query, as they stand in the request line.
    """
    stale = sources.stale()
    look = Look(sources=sources, state=sources.snapshot(), stale=stale)
    try:
        return _dispatch(look, target)
    except RtAgentError as error:
        return look.tell(error.as_dict(), status_of(error))


def _dispatch(look: Look, target: str) -> Reply:
    path, _, query = target.partition("?")
    segments = [unquote(part) for part in path.strip("/").split("/")]
    if len(segments) == 1 and segments[0] in COLLECTIONS:
        return COLLECTIONS[segments[0]](look, _query(segments[0], query))
    if len(segments) == 2 and segments[0] in MEMBERS:
        return MEMBERS[segments[0]](look, segments[1])
    known = ", ".join(f"/{name}" for name in COLLECTIONS)
    missing = problem(HTTPStatus.NOT_FOUND, f"nothing is at {path}; there are {known}")
    return look.tell(missing, HTTPStatus.NOT_FOUND)


def _query(noun: str, text: str) -> Query:
    query = dict(parse_qsl(text, keep_blank_values=True))
    allowed = FILTERS.get(noun, frozenset())
    unknown = sorted(query.keys() - allowed)
    if unknown:
        rule = f"not a filter of /{noun}; there are: {', '.join(sorted(allowed)) or 'none'}"
        raise InvalidRequest(
            method=f"GET /{noun}", errors=[{"path": name, "message": rule} for name in unknown]
        )
    return query
