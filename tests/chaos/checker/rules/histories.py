"""Histories: each claim has one recorded history, which is a chain and ends with its state."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from tests.chaos.checker.claims import Claims
from tests.chaos.checker.documents import Document
from tests.chaos.checker.run import Run, Violation, rows

PROMISE = "P2, the history of a claim is complete"
#: Fields of a claim that its history records.
FIELDS = ("state", "vcpus", "pcpus", "memory_mb", "disk_mb", "migration_uuid")


def check(run: Run, claims: Claims) -> Iterator[Violation]:
    """Yield recorded histories that are no chain, or do not end as the claims are."""
    for period in run.periods:
        for host, stored in period.of("units"):
            histories = _by_claim(rows(stored.document, "claim_events"))
            lines = [period.line, stored.line]
            messages = list(_broken(histories))
            seen = period.observed.get(("claims", host))
            if seen is not None:
                lines.append(seen.line)
                live = {claim["uuid"]: claim for claim in rows(seen.document, "claims")}
                messages += _unlike(histories, live)
            for message in messages:
                yield Violation(PROMISE, f"{host}: {message}", tuple(lines))


def _by_claim(stored: list[Any]) -> Mapping[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in sorted(stored, key=lambda each: each["id"]):
        found[row["claim_uuid"]].append(row)
    return found


def _broken(histories: Mapping[str, list[Any]]) -> Iterator[str]:
    """Yield histories whose steps do not follow from each other."""
    for uuid, its in histories.items():
        before = _facts(its[0]["before"])
        if before is not None:
            yield f"the history of claim {uuid} begins with {its[0]['action']}"
        for row in its:
            if _facts(row["before"]) != before:
                yield f"step {row['action']} of claim {uuid} does not follow from the one before it"
            before = _facts(row["after"])


def _unlike(histories: Mapping[str, list[Any]], live: Mapping[str, Document]) -> Iterator[str]:
    """Yield claims that are not what the last step of their history made of them."""
    for uuid in sorted({*histories, *live}):
        if uuid not in histories:
            yield f"claim {uuid} has no recorded history"
            continue
        last = _facts(histories[uuid][-1]["after"])
        claim = live.get(uuid, {"state": "released"})
        for name in FIELDS:
            if name in claim and name in last and claim[name] != last[name]:
                yield f"{name} of claim {uuid} is {claim[name]}, by its history {last[name]}"


def _facts(document: Any) -> Any:
    return json.loads(document) if isinstance(document, str) else document
