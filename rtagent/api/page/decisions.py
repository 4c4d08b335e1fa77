"""The page of the last decisions of a scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rtagent.api.page.queries import PageQuery
from rtagent.api.page.rendering import Content
from rtagent.api.page.times import duration, moment
from rtagent.scheduler.decision_log import LoggedDecision

PATH = "/page/decisions"
NAMES = frozenset({"outcome", "from"})
#: Rows of one page, and hosts that one of them names.
ROWS = 100
NAMED = 5
OUTCOMES: Mapping[str, str] = {"selected": "selected", "failed": "failed"}


def decisions_page(
    decisions: Sequence[LoggedDecision], query: Mapping[str, str], now: datetime
) -> Content:
    """Return the decisions, newest first."""
    asked = PageQuery(PATH, query, NAMES)
    outcome = asked.choice("outcome", OUTCOMES)
    found = [each for each in decisions if not outcome or (outcome == "failed") == bool(each.error)]
    part = asked.part(len(found), ROWS)
    start = part["start"]
    failed = sum(each.error is not None for each in decisions)
    return Content(
        template="decisions.html",
        values={
            "rows": [_row(each, now) for each in found[start : start + ROWS]],
            "counts": {"selected": len(decisions) - failed, "failed": failed},
            "total": len(decisions),
            "found": len(found),
            "outcome": outcome,
            **part,
        },
    )


def _row(decision: LoggedDecision, now: datetime) -> Mapping[str, Any]:
    return {
        "at": moment(decision.at, now),
        "purpose": decision.purpose,
        "flavor": decision.flavor,
        "instances": decision.instances,
        "hosts": decision.hosts,
        "took": duration(decision.seconds),
        "refused": list(decision.refused.items()),
        "error": decision.error or "",
        "choices": decision.choices[:NAMED],
        "more": max(0, len(decision.choices) - NAMED),
    }
