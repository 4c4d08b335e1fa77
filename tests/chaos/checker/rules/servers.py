"""Servers: each has one domain, one claim and one allocation, as its conductors' records say.

A server that was moved, and is not confirmed, has those of its source, too. Nothing else is there.
"""

from collections.abc import Iterator
from typing import Any

from tests.chaos.checker.claims import Claims
from tests.chaos.checker.documents import Document
from tests.chaos.checker.run import Period, Run, Violation, rows

PROMISE = "a server has one guest, one claim and one allocation"
#: What a flavor allocates, by the field that has it.
_CLASSES = {"VCPU": "vcpus", "MEMORY_MB": "memory_mb", "DISK_GB": "root_gb"}

#: What is compared, by name: each thing is a tuple, so that any difference is shown whole.
_Books = dict[str, set[tuple[Any, ...]]]


def check(run: Run, claims: Claims) -> Iterator[Violation]:
    """Yield what is there and should not be, or the reverse."""
    for period in run.periods:
        for _, observed in period.of("servers"):
            expected, found = _expected(observed.document), _found(period)
            for name, things in expected.items():
                for sentence, which in (
                    ("is missing", things - found[name]),
                    ("should not be there", found[name] - things),
                ):
                    for thing in sorted(which, key=str):
                        yield Violation(PROMISE, f"{name} {thing} {sentence}", (observed.line,))


def _expected(servers: list[Document]) -> _Books:
    books: _Books = {"claim": set(), "domain": set(), "allocation": set()}
    for server in servers:
        place, move = server.get("place"), server.get("move")
        if place is not None:
            was = move["was"] if move else None
            runs = server["vm_state"] == "active" or was == "active"
            _put(books, server["uuid"], place, "active", runs)
            _allocate(books, server["uuid"], place, server["spec"])
        if place is not None and move is not None:
            same = move["source"]["host"] == place["host"]
            _put(books, server["uuid"], move["source"], "outgoing", None if same else False)
            _allocate(books, move["migration"]["uuid"], move["source"], move["spec"])
    return books


def _put(books: _Books, server: str, place: Document, state: str, runs: bool | None) -> None:
    """:param runs: None: the host has no domain of this claim."""
    claim = place["claim"]["uuid"]
    books["claim"].add((place["host"], server, claim, state))
    if runs is not None:
        books["domain"].add((place["host"], server, claim, runs))


def _allocate(books: _Books, consumer: str, place: Document, spec: Document) -> None:
    for name, field in _CLASSES.items():
        books["allocation"].add((place["node_uuid"], consumer, name, spec["flavor"][field]))


def _found(period: Period) -> _Books:
    return {
        "claim": {
            (host, each["owner_id"], each["uuid"], each["state"])
            for host, observed in period.of("claims")
            for each in rows(observed.document, "claims")
        },
        "domain": {
            (host, each["uuid"], each["claim"], each["active"])
            for host, observed in period.of("domains")
            for each in rows(observed.document, "domains")
        },
        "allocation": {
            (provider, consumer, name, amount)
            for _, observed in period.of("placement")
            for provider, document in observed.document.items()
            for consumer, part in document["allocations"].items()
            for name, amount in part["resources"].items()
        },
    }
