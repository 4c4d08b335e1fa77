"""Reads: no read of a host goes backwards.

A change is published before it is answered. So a read that begins after an answer shows at least
the revision of that answer, whoever got it. A reply that is marked stale may be older than answers
to other callers, but not older than what the same caller has seen.
"""

from collections import defaultdict
from collections.abc import Iterator

from tests.chaos.checker.claims import Claims
from tests.chaos.checker.run import ADVERSARY, Call, Run, Violation

PROMISE = "Durable before visible, no read goes backwards"
READS = frozenset(
    {"get_node", "get_claim", "get_claims_for_host", "get_claims_for_instance", "ping"}
)


def check(run: Run, claims: Claims) -> Iterator[Violation]:
    """Yield reads whose revision is lower than one that was answered before they began."""
    by_host: dict[str, list[Call]] = defaultdict(list)
    for call in run.calls.values():
        if call.ok and _revision(call) is not None and not call.process.startswith(ADVERSARY):
            by_host[call.host].append(call)
    for host, calls in by_host.items():
        for call, newer in _older(calls):
            message = (
                f"{host}: {call.method} shows revision {_revision(call)} after {newer.method}"
                f" was answered with revision {_revision(newer)}"
            )
            yield Violation(PROMISE, message, (*newer.lines, *call.lines))


def _older(calls: list[Call]) -> Iterator[tuple[Call, Call]]:
    """Yield the reads that are too old, each with the answer that is newer."""
    moments = sorted(
        [(call.ended, 1, number) for number, call in enumerate(calls)]
        + [(call.invoked, 0, number) for number, call in enumerate(calls)]
    )
    highest: dict[str, Call] = {}  # by caller; "": of all
    at_begin: dict[int, list[Call]] = {}
    for _, ends, number in moments:
        call = calls[number]
        if not ends:
            names = (call.process,) if _stale(call) else ("", call.process)
            at_begin[number] = [highest[name] for name in names if name in highest]
            continue
        for other in at_begin[number] if call.method in READS else ():
            if _number(other) > _number(call):
                yield call, other
                break
        for name in ("", call.process):
            if name not in highest or _number(highest[name]) < _number(call):
                highest[name] = call


def _number(call: Call) -> int:
    return _revision(call) or 0


def _revision(call: Call) -> int | None:
    """Return the revision of a reply; that of a claim is when the claim last changed."""
    reply = call.reply if isinstance(call.reply, dict) else {}
    revision = reply.get("revision")
    if call.method == "select_destinations" or not isinstance(revision, int):
        return None
    return revision


def _stale(call: Call) -> bool:
    return isinstance(call.reply, dict) and call.reply.get("stale") is True
