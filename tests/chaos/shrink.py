"""Shrink: search a smaller plan that still violates a promise. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from tests.chaos.run import Plan

#: The shortest run, in seconds, and the fewest callers.
SHORTEST, FEWEST = 15.0, 1
#: Runs of each smaller plan, because not every run of a plan violates.
TRIES = 2


def repeated(
    run: Callable[[Plan], Collection[str]], promises: Collection[str]
) -> Callable[[Plan], bool]:
    """Return a function that is true if one of `TRIES` runs violates one of these promises.

    :param run: makes a run of a plan, and returns what it violates.
    """
    return lambda plan: any(set(run(plan)) & set(promises) for _ in range(TRIES))


def shrink(plan: Plan, violates: Callable[[Plan], bool]) -> Plan:
    """Return the smallest plan that was found to violate.

    Threads and processes are scheduled differently in each run, so a plan that violates once may
    not do so again: it is only replaced by one that was seen to violate.

    :param plan: whose faults are listed. :param violates: makes a run, or several.
    """
    faults = plan.faults or ()
    if faults and violates(replace(plan, faults=())):
        plan = replace(plan, faults=())
    else:
        plan = replace(plan, faults=_fewest(faults, lambda few: violates(_with(plan, few))))
    for smaller in (_shorter, _fewer_callers):
        while (candidate := smaller(plan)) is not None and violates(candidate):
            plan = candidate
    return plan


def _with(plan: Plan, faults: Sequence[str]) -> Plan:
    return replace(plan, faults=tuple(faults))


def _shorter(plan: Plan) -> Plan | None:
    return replace(plan, seconds=plan.seconds / 2) if plan.seconds / 2 >= SHORTEST else None


def _fewer_callers(plan: Plan) -> Plan | None:
    return replace(plan, callers=plan.callers // 2) if plan.callers // 2 >= FEWEST else None


def _fewest(
    faults: tuple[str, ...], violates: Callable[[tuple[str, ...]], bool]
) -> tuple[str, ...]:
    """Return a part of the faults without which nothing is violated (delta debugging)."""
    parts = 2
    while len(faults) >= 2:
        for part in _parts(faults, parts):
            rest = tuple(each for each in faults if each not in part)
            if violates(rest):
                faults, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts >= len(faults):
                return faults
            parts = min(parts * 2, len(faults))
    return faults


def _parts(faults: tuple[str, ...], number: int) -> Iterator[tuple[str, ...]]:
    size = -(-len(faults) // number)
    for begin in range(0, len(faults), size):
        yield faults[begin : begin + size]
