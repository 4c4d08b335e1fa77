"""The page of all claims: a table with filters and an order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from rtagent.api import claims as documents
from rtagent.api.page import quantities
from rtagent.api.page.queries import PageQuery
from rtagent.api.page.rendering import Content
from rtagent.api.page.times import Moment, moment
from rtagent.model.base import Value
from rtagent.model.claim import LIVE_STATES, Claim
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.node_state import NodeState
from rtagent.reconcile.drift import Drift, absent, drifts

PATH = "/page/claims"
#: Claims on one page.
ROWS = 250

STATES = tuple(sorted(LIVE_STATES))
#: What can be wrong with a claim, or special: the filter, and what it is called.
FLAGS: Mapping[str, str] = {
    "suspect": "suspect",
    "drift": "drift",
    "absent": "resources missing",
    "leased": "with a lease",
}


class Row(Value, frozen=True, kw_only=True):
    """One claim. Quantities are in words.

    :ivar lease: when it ends; None: there is none. :ivar overdue: it has ended.
    :ivar flags: a word and the reason of each problem.
    """

    uuid: str
    name: str
    owner: str
    project: str
    state: str
    kind: str
    vcpus: int
    pcpus: int
    memory: str
    disk: str
    devices: int
    lease: Moment | None
    overdue: bool
    created: Moment
    flags: tuple[tuple[str, str], ...]


_Key = Callable[[Claim], Any]
#: By column: what it is sorted by.
SORTS: Mapping[str, _Key] = {
    "name": lambda claim: (claim.instance.display_name or "").casefold(),
    "state": lambda claim: claim.state,
    "kind": lambda claim: claim.kind,
    "vcpus": lambda claim: claim.vcpus + claim.pcpus,
    "memory": lambda claim: claim.memory_mb,
    "disk": lambda claim: claim.disk_mb,
    "devices": lambda claim: len(claim.pci) + len(claim.resources),
    "lease": lambda claim: (
        claim.expires_at is None,
        claim.expires_at.timestamp() if claim.expires_at else 0,
    ),
    "created": lambda claim: claim.created_at,
}
NAMES = frozenset({"q", "state", "kind", "flag", "sort", "order", "from"})


class Problems:
    """What is wrong with the claims of a state."""

    def __init__(self, state: NodeState) -> None:
        self._drifts = _by_claim(drifts(state))
        self._absent = _by_claim(absent(state))

    def flags(self, claim: Claim) -> tuple[tuple[str, str], ...]:
        """Return a word and the reason of each problem of a claim."""
        found = []
        if claim.suspect is not None:
            found.append(("damaged" if claim.quarantined else "suspect", claim.suspect))
        for word, differences in (("drift", self._drifts), ("absent", self._absent)):
            if mine := differences.get(claim.uuid):
                found.append((word, "; ".join(map(str, mine))))
        return tuple(found)

    def drifts_of(self, claim: Claim) -> tuple[Drift, ...]:
        """Return the differences between a claim and its domain, and what the host lacks."""
        return (*self._drifts.get(claim.uuid, ()), *self._absent.get(claim.uuid, ()))

    def has(self, claim: Claim, flag: str) -> bool:
        """Whether a claim is one of those that a filter of `FLAGS` shows."""
        if flag == "leased":
            return claim.expires_at is not None
        if flag == "suspect":
            return claim.suspect is not None
        return claim.uuid in (self._drifts if flag == "drift" else self._absent)


def claim_table(state: NodeState, query: Mapping[str, str], now: datetime) -> Content:
    """Return the table of the live claims."""
    asked = PageQuery(PATH, query, NAMES)
    problems = Problems(state)
    filters = {
        "q": asked.text("q"),
        "state": asked.choice("state", STATES),
        "kind": asked.choice("kind", _kind_choices(state)),
        "flag": asked.choice("flag", FLAGS),
    }
    sort = asked.choice("sort", SORTS, "created")
    order = asked.choice("order", ("up", "down"), "up")
    every: Iterable[Claim] = documents.claims(state, {})["claims"]
    found = sorted(
        (each for each in every if _matches(each, filters, problems)),
        key=SORTS[sort],
        reverse=order == "down",
    )
    part = asked.part(len(found), ROWS)
    start = part["start"]
    return Content(
        template="claims.html",
        values={
            "rows": [row(each, problems, now) for each in found[start : start + ROWS]],
            "found": len(found),
            "total": len(state.claims),
            "filters": filters,
            "filtered": any(filters.values()),
            "choices": {"state": STATES, "kind": _kind_choices(state), "flag": FLAGS},
            "sort": sort,
            "order": order,
            "sorts": asked.sort_links(SORTS, sort, order),
            **part,
            "counts": _counts(state, problems),
            "orphans": [_orphan(each) for each in documents.orphans(state)["orphans"]],
        },
    )


def row(claim: Claim, problems: Problems, now: datetime) -> Row:
    """Return a claim as a row."""
    lease = claim.expires_at
    return Row(
        uuid=claim.uuid,
        name=claim.instance.display_name or claim.owner_id,
        owner=claim.owner_id,
        project=claim.instance.project_id or "",
        state=claim.state,
        kind=claim.kind,
        vcpus=claim.vcpus,
        pcpus=claim.pcpus,
        memory=quantities.megabytes(claim.memory_mb) if claim.memory_mb else "",
        disk=quantities.megabytes(claim.disk_mb) if claim.disk_mb else "",
        devices=len(claim.pci) + len(claim.resources),
        lease=None if lease is None else moment(lease, now),
        overdue=lease is not None and lease < now,
        created=moment(claim.created_at, now),
        flags=problems.flags(claim),
    )


def _matches(claim: Claim, filters: Mapping[str, str], problems: Problems) -> bool:
    if filters["state"] not in ("", claim.state) or filters["kind"] not in ("", claim.kind):
        return False
    if filters["flag"] and not problems.has(claim, filters["flag"]):
        return False
    wanted, facts = filters["q"].casefold(), claim.instance
    texts = (claim.uuid, claim.owner_id, facts.display_name, facts.project_id, claim.tag)
    return not wanted or any(wanted in each.casefold() for each in texts if each)


def _kind_choices(state: NodeState) -> tuple[str, ...]:
    return tuple(sorted({claim.kind for claim in state.claims.values()}))


def _counts(state: NodeState, problems: Problems) -> Mapping[str, int]:
    """How many claims there are by state, then by flag."""
    claims = state.claims.values()
    states = Counter(claim.state for claim in claims)
    flags = {flag: sum(problems.has(claim, flag) for claim in claims) for flag in FLAGS}
    return {**{name: states[name] for name in STATES if states[name]}, **flags}


def _by_claim(found: Iterable[Drift]) -> Mapping[str, list[Drift]]:
    by_claim: dict[str, list[Drift]] = {}
    for each in found:
        by_claim.setdefault(each.claim_uuid, []).append(each)
    return by_claim


def _orphan(domain: DomainUsage) -> Mapping[str, Any]:
    return {
        "uuid": domain.domain_uuid,
        "name": domain.name,
        "active": domain.active,
        "vcpus": domain.vcpus,
        "memory": quantities.megabytes(domain.memory_mb),
        "unknown": ", ".join(sorted(domain.occupancy.unknown)) or "none",
    }
