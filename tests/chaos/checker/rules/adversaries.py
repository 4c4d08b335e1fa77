"""Adversaries: no call of a caller that must be refused is answered, and none has an effect."""

from collections.abc import Iterator

from tests.chaos.checker.claims import Claims
from tests.chaos.checker.run import ADVERSARY, Run, Violation

PROMISE = "Trust, only callers that prove who they are are served"


def check(run: Run, claims: Claims) -> Iterator[Violation]:
    """Yield the calls of adversaries that were answered with success.

    Their effects are found by the other rules, because no call of an adversary is a reason for a
    claim to exist or to end.
    """
    for call in run.calls.values():
        if call.process.startswith(ADVERSARY) and call.ok:
            message = f"{call.host}: {call.method} of {call.process} was served"
            yield Violation(PROMISE, message, call.lines)
