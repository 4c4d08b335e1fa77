"""Judge: every rule, applied to a run."""

from collections.abc import Callable, Iterator

from tests.chaos.checker.claims import Claims
from tests.chaos.checker.rules import (
    adversaries,
    convergence,
    domains,
    events,
    held_twice,
    histories,
    leases,
    operations,
    presence,
    reads,
    servers,
    usage,
    waiting,
)
from tests.chaos.checker.run import Run, Violation

#: Seconds within which every call ends, for a `patience` of 1.
BOUND = 300.0
#: The rules that need the claims.
RULES: tuple[Callable[[Run, Claims], Iterator[Violation]], ...] = (
    adversaries.check,
    held_twice.check,
    presence.check,
    operations.check,
    reads.check,
    usage.check,
    domains.check,
    servers.check,
    convergence.check,
    events.check,
    histories.check,
    leases.check,
    waiting.served,
)


def judge(run: Run, bound: float = BOUND) -> list[Violation]:
    """Return every violation, in the order of the history.

    :param bound: seconds within which every call has to end, for a `patience` of 1.
    """
    claims = Claims(run)
    found = {each for rule in RULES for each in rule(run, claims)}
    found.update(waiting.check(run, bound * run.patience))
    return sorted(found, key=lambda each: (each.lines[-1:], each))
