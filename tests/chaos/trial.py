"""Trial: one run and the judgement of its history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.checker.judge import judge
from tests.chaos.checker.run import Run
from tests.chaos.checker.violation import Violation
from tests.chaos.conductors.opening import STEP
from tests.chaos.run import Plan, run

#: Exit codes.
NO_VIOLATION, VIOLATED, FAILED = 0, 1, 2


@dataclass(frozen=True, kw_only=True)
class Trial:
    """:ivar stuck: sentences about what did not recover in time.
    :ivar failures: sentences about faults that could not be injected or ended.
    :ivar impossible: names of faults that the world could not have.
    :ivar calls: of callers, or steps of conductors. :ivar faults: how often each occurred.
    """

    violations: tuple[Violation, ...]
    stuck: tuple[str, ...]
    failures: tuple[str, ...]
    impossible: tuple[str, ...]
    calls: int
    quiets: int
    faults: Counter[str]

    @property
    def exit_code(self) -> int:
        """The exit code. A run has failed if a fault could not be injected or ended."""
        if self.violations or self.stuck:
            return VIOLATED
        return FAILED if self.failures else NO_VIOLATION

    @property
    def promises(self) -> frozenset[str]:
        """What was violated, by name."""
        stuck = {"nothing waits for ever"} if self.stuck else set()
        return frozenset({each.promise for each in self.violations} | stuck)

    def __str__(self) -> str:
        faults = ", ".join(f"{name} {number}" for name, number in sorted(self.faults.items()))
        return "\n".join(
            (
                *map(str, self.violations),
                *(f"nothing waits for ever: {each}" for each in self.stuck),
                *(f"the run failed, not injected or ended: {each}" for each in self.failures),
                *([f"not possible here: {', '.join(self.impossible)}"] * bool(self.impossible)),
                f"{self.calls} calls, {sum(self.faults.values())} faults ({faults or 'none'}),"
                f" {self.quiets} quiet periods,"
                f" {len(self.violations) + len(self.stuck)} violations",
            )
        )


def _steps(directory: Path) -> int:
    """Return how many steps conductors have begun."""
    logs = (file.read_text() for file in directory.glob("conductor-*/conductors.log"))
    return sum(line.startswith(STEP) for text in logs for line in text.splitlines())


def make_trial(plan: Plan, directory: Path, say: Callable[[str], None] = print) -> Trial:
    """Make a run in this directory, and judge its history."""
    result = run(plan, directory, say)
    history = Run.load(directory / "history.jsonl")
    return Trial(
        violations=tuple(judge(history)),
        stuck=result.stuck,
        failures=result.failures,
        impossible=result.impossible,
        calls=len(history.calls) + _steps(directory),
        quiets=len(history.periods),
        faults=Counter(each.name for each in history.faults if each.state == "begin"),
    )
