"""The pages of claims: a table of all, one claim, and the recorded history."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from rtagent.api import claims as documents
from rtagent.api.page.queries import PageQuery
from rtagent.api.page.rendering import Content, megabytes
from rtagent.errors import ClaimNotFound, Unavailable
from rtagent.model.assignment import Assignment
from rtagent.model.base import grouped
from rtagent.model.claim import LIVE_STATES, Claim, ClaimEvent, HistoryPage
from rtagent.model.guest import GuestComparison, LineMark
from rtagent.model.node_state import NodeState
from rtagent.pci.pmem import with_namespaces
from rtagent.reconcile.drift import Drift, absent, drifts

PATH, HISTORY = "/page/claims", "/page/history"
#: Claims on one page.
ROWS = 250
#: Characters of a domain's document that are shown.
MAX_DOCUMENT = 200_000

STATES = tuple(sorted(LIVE_STATES))
#: What can be wrong with a claim, or special: the filter, and what it is called.
FLAGS: Mapping[str, str] = {
    "suspect": "suspect",
    "drift": "drift",
    "absent": "resources missing",
    "leased": "with a lease",
}
#: The sign and the words of a line of the comparison, for people who see no colours.
MARKS: Mapping[LineMark, tuple[str, str]] = {
    LineMark.SAME: ("", ""),
    LineMark.DIFFERENT: ("≠", "differs"),
    LineMark.ONLY_CLAIM: ("<", "only the claim has it"),
    LineMark.ONLY_DOMAIN: (">", "only the domain has it"),
}

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
#: What an event may change: the label, the field, and how its value is written.
_SIZES: tuple[tuple[str, str, Callable[[int], str]], ...] = (
    ("vCPUs", "vcpus", str),
    ("pinned CPUs", "pcpus", str),
    ("memory", "memory_mb", megabytes),
    ("disk", "disk_mb", megabytes),
)


class Problems:
    """What is wrong with the claims of a state."""

    def __init__(self, state: NodeState) -> None:
        self._drifts = _by_claim(drifts(state))
        self._absent = _by_claim(absent(state))

    def flags(self, claim: Claim) -> tuple[tuple[str, str], ...]:
        """Return a word and the reason of each problem of a claim."""
        flags = []
        if claim.suspect is not None:
            flags.append(("damaged" if claim.quarantined else "suspect", claim.suspect))
        for word, differences in (("drift", self._drifts), ("absent", self._absent)):
            if mine := differences.get(claim.uuid):
                flags.append((word, "; ".join(map(str, mine))))
        return tuple(flags)

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
    kinds = tuple(sorted({claim.kind for claim in state.claims.values()}))
    choices = {"state": STATES, "kind": kinds, "flag": FLAGS}
    filters = {"q": asked.text("q")}
    filters |= {name: asked.choice(name, values) for name, values in choices.items()}
    live: Iterable[Claim] = documents.claims(state, {})["claims"]
    matching = [claim for claim in live if _matches(claim, filters, problems)]
    return Content(
        template="claims.html",
        values={
            **asked.table(matching, ROWS, SORTS, "created"),
            "problems": problems,
            "now": now,
            "total": len(state.claims),
            "filters": filters,
            "choices": choices,
            "counts": _counts(state, problems),
            **documents.orphans(state),
        },
    )


def claim_page(
    state: NodeState,
    uuid: str,
    query: Mapping[str, str],
    history: HistoryPage | Unavailable,
    comparison: GuestComparison | None,
    now: datetime,
) -> Content:
    """Return the page of a claim, or what is recorded of a claim that has ended.

    :param history: or why it cannot be read now.
    :param comparison: None: the claim has ended.
    :raises ClaimNotFound: there is neither the claim nor a record of it.
    """
    claim = state.claims.get(uuid)
    unread = history if isinstance(history, Unavailable) else None
    page = HistoryPage() if isinstance(history, Unavailable) else history
    if claim is None and not page.events:
        raise unread or ClaimNotFound(claim_uuid=uuid)
    values = {
        **_history(page, PageQuery(f"{PATH}/{uuid}", query, {"before"}), now),
        "uuid": uuid,
        "claim": None if claim is None else with_namespaces(claim, state),
        "history_problem": unread.message if unread is not None else "",
        "comparison": comparison,
        "marks": MARKS,
        "max_document": MAX_DOCUMENT,
    }
    if claim is not None:
        problems = Problems(state)
        values["flags"], values["drifts"] = problems.flags(claim), problems.drifts_of(claim)
        values["assignment"] = claim.numa_topology or Assignment()
    return Content(template="claim.html", values=values)


def history_page(page: HistoryPage, query: Mapping[str, str], now: datetime) -> Content:
    """Return the recorded history of all claims."""
    values = _history(page, PageQuery(HISTORY, query, {"before"}), now)
    return Content(template="history.html", values=values)


def _history(page: HistoryPage, asked: PageQuery, now: datetime) -> dict[str, Any]:
    return {
        "history": page.events,
        "changes": _changes,
        "older": asked.link(before=page.older) if page.older else "",
        "newest": asked.link(before=None) if asked.number("before") else "",
        "now": now,
    }


def _matches(claim: Claim, filters: Mapping[str, str], problems: Problems) -> bool:
    if filters["state"] not in ("", claim.state) or filters["kind"] not in ("", claim.kind):
        return False
    if filters["flag"] and not problems.has(claim, filters["flag"]):
        return False
    text, facts = filters["q"].casefold(), claim.instance
    texts = (claim.uuid, claim.owner_id, facts.display_name, facts.project_id, claim.tag)
    return not text or any(text in name.casefold() for name in texts if name)


def _counts(state: NodeState, problems: Problems) -> Mapping[str, int]:
    """How many claims there are by state, then by flag."""
    claims = state.claims.values()
    states = Counter(claim.state for claim in claims)
    flags = {flag: sum(problems.has(claim, flag) for claim in claims) for flag in FLAGS}
    return {**{name: states[name] for name in STATES if states[name]}, **flags}


def _by_claim(differences: Iterable[Drift]) -> Mapping[str, list[Drift]]:
    return grouped((drift.claim_uuid, drift) for drift in differences)


def _changes(event: ClaimEvent) -> Iterator[str]:
    """What an event changed except the state, each in a few words; of a new claim, what it has."""
    before, after = event.before, event.after
    for label, field, words in _SIZES:
        was = getattr(before, field) if before else 0
        now = getattr(after, field)
        if before is None and now:
            yield f"{words(now)} {label}"
        elif before is not None and was != now:
            yield f"{label}: {words(was)} → {words(now)}"
    suspected = before.suspect if before else None
    if after.suspect and after.suspect != suspected:
        yield f"suspect: {after.suspect}"
    elif suspected and not after.suspect:
        yield "no longer suspect"
