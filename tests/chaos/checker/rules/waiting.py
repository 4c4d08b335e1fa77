"""Waiting: every call ends within its bound, claims are granted, and the history is whole."""

from collections import Counter
from collections.abc import Iterator

from tests.chaos.checker.claims import Claims
from tests.chaos.checker.run import Run, Violation

PROMISE = "P5, nothing waits for ever"
#: So many requests for claims are not all refused by a host that works.
ENOUGH = 50


def check(run: Run, bound: float) -> Iterator[Violation]:
    """Yield calls that took longer than the bound, or have no end before a quiet period."""
    quiet = [(period.t, period.line) for period in run.periods]
    for call in run.calls.values():
        name = f"{call.host or 'a scheduler'}: {call.method} of {call.process}"
        if min(call.ended, run.end) - call.invoked > bound:
            took = min(call.ended, run.end) - call.invoked
            yield Violation(PROMISE, f"{name} took {took:.0f} s, over {bound:.0f} s", call.lines)
        for t, line in quiet:
            if call.invoked < t < call.ended:
                message = f"{name} had no end when everything was quiet"
                yield Violation(PROMISE, message, (*call.lines[:1], line))
                break
    for line in run.unmatched:
        yield Violation("History", "an end without a call that is under way", (line,))


def served(run: Run, claims: Claims) -> Iterator[Violation]:
    """Yield hosts that granted nothing: the other rules find nothing wrong with such a run."""
    for host, its in claims.by_host.items():
        asked = Counter(claim.granted is not None for claim in its.values())
        if asked[False] >= ENOUGH and not asked[True]:
            last = next(reversed(its.values()))
            message = f"{host}: none of {asked[False]} claims was granted"
            yield Violation(PROMISE, message, last.lines)
