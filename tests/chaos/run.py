"""Run: a world, callers and faults for some minutes, with quiet periods, and its judgement."""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import eq
from pathlib import Path

from tests.chaos.callers.callers import Callers
from tests.chaos.checker.judge import judge
from tests.chaos.checker.run import Run, Violation
from tests.chaos.conductors.callers import ConductorCallers
from tests.chaos.conductors.opening import STEP
from tests.chaos.history import History
from tests.chaos.nemesis.nemesis import Nemesis
from tests.chaos.observation.quiet import Quiet
from tests.chaos.world.conductors import ConductorWorld
from tests.chaos.world.lab import LabWorld
from tests.chaos.world.world import World

#: The faults of a run with conductors: what they and their calls have to outlive.
CONDUCTOR_FAULTS = (
    *("late-order", "late-call", "late-allocation", "kill-conductor", "pause-conductor"),
    *("stop-conductor", "kill-agent", "pause-agent"),
    *("kill-scheduler", "pause-broker", "pause-database", "pause-placement"),
    *("cut-link-broker", "partition-link-broker", "slow-link-broker", "cut-link-database"),
    *("partition-link-database", "cut-link-placement", "partition-link-placement"),
)
#: Exit codes.
NO_VIOLATION, VIOLATED, FAILED = 0, 1, 2
#: Seconds of faults between two quiet periods, drawn at random, for a `speed` of 1.
BETWEEN_QUIET = (45.0, 75.0)
#: Seconds for which a period waits at most for its first call and fault, on a slow machine.
LATEST = 600.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run does. The same plan gives the same draws, though not the same timing.

    :ivar seconds: of calls and faults, without the start and quiet periods.
    :ivar faults: the names of the faults that may occur; None: all.
    :ivar lab: on lab hosts, whose database is their own.
    :ivar conductors: how many make operations on servers, in the place of callers; 0: callers.
    """

    seed: int
    seconds: float = 600.0
    callers: int = 8
    hosts: int = 3
    faults: tuple[str, ...] | None = None
    database: str | None = None
    lab: bool = False
    conductors: int = 0

    @property
    def command(self) -> str:
        """The command that makes such a run."""
        options = [
            *(["--lab"] if self.lab else []),
            f"--minutes {self.seconds / 60:g} --seed {self.seed}",
            f"--callers {self.callers} --hosts {self.hosts}",
        ]
        if self.conductors:
            options.append(f"--conductors {self.conductors}")
        if self.faults is not None:
            options.append(f"--faults {','.join(self.faults) or 'none'}")
        if self.database is not None:
            options.append(f"--database {self.database}")
        return f"tools/chaos {' '.join(options)}"


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


def interrupt_at_sigterm() -> None:
    """Let SIGTERM do what Ctrl-C does: a run ends early, and removes what it has started.

    That is not interrupted by further signals.
    """
    ends = (signal.SIGTERM, signal.SIGINT)

    def interrupt(*_: object) -> None:
        for number in ends:  # not SIG_IGN, which the programs of the removal would inherit
            signal.signal(number, lambda *_: None)
        raise KeyboardInterrupt

    for number in ends:
        signal.signal(number, interrupt)


def make_trial(plan: Plan, directory: Path, say: Callable[[str], None] = print) -> Trial:
    """Make a run, and judge its history, which is ``history.jsonl`` in the directory.

    :param say: gets a line about each step.
    """
    quiet, nemesis = _run(plan, directory, say)
    history = Run.load(directory / "history.jsonl")
    return Trial(
        violations=tuple(judge(history)),
        stuck=tuple(quiet.stuck),
        failures=tuple(nemesis.failures) if nemesis is not None else (),
        impossible=nemesis.impossible if nemesis is not None else (),
        calls=len(history.calls) + _steps(directory),
        quiets=len(history.periods),
        faults=Counter(each.name for each in history.faults if each.state == "begin"),
    )


def _run(plan: Plan, directory: Path, say: Callable[[str], None]) -> tuple[Quiet, Nemesis | None]:
    with _world(plan, directory) as world, History(directory / "history.jsonl") as history:
        history.begin(world.patience)
        say(f"seed {plan.seed}: {plan.hosts} hosts, {_described(world)}, in {directory}")
        callers: Callers | ConductorCallers
        if isinstance(world, ConductorWorld):
            callers = ConductorCallers(world)
        else:
            callers = Callers(world, history, plan.seed, plan.callers)
        quiet = Quiet(world, history, callers)
        names = CONDUCTOR_FAULTS if plan.conductors and plan.faults is None else plan.faults
        nemesis = None if plan.faults == () else Nemesis(world, plan.seed, history, names)
        try:
            callers.start()

            def happened() -> list[int]:
                calls = history.count("invoke") + _steps(directory)
                return [calls] if nemesis is None else [calls, history.count("fault")]

            _alternate(_periods(plan, world), callers, nemesis, quiet, happened, say)
        finally:
            if nemesis is not None:
                nemesis.close()
            callers.close()
            quiet.close()
        return quiet, nemesis


def _world(plan: Plan, directory: Path) -> World:
    if plan.lab:
        return LabWorld(directory, plan.seed, hosts=plan.hosts)
    if plan.conductors:
        return ConductorWorld(
            directory,
            plan.seed,
            hosts=plan.hosts,
            database=plan.database,
            conductors=plan.conductors,
        )
    return World(directory, plan.seed, hosts=plan.hosts, database=plan.database)


def _periods(plan: Plan, world: World) -> Iterator[tuple[float, float]]:
    """Yield the seconds of each period of faults, and those that are left after it."""
    rng, left = random.Random(f"run {plan.seed}"), plan.seconds
    while left > 0:
        period = min(left, rng.uniform(*BETWEEN_QUIET) / world.speed)
        left -= period
        yield period, left


def _described(world: World) -> str:
    return ", ".join([world.database_kind, *sorted(world.features)])


def _alternate(
    periods: Iterable[tuple[float, float]],
    callers: Callers | ConductorCallers,
    nemesis: Nemesis | None,
    quiet: Quiet,
    happened: Callable[[], Sequence[int]],
    say: Callable[[str], None],
) -> None:
    """Alternate between faults and quiet periods, and end with a quiet period.

    A period lasts until a call and a fault have begun in it.

    :param happened: returns how many calls there were, and how many faults if there are any.
    """
    for period, left in periods:
        before = happened()
        if nemesis is not None:
            nemesis.start()
        until = time.monotonic() + period
        while (now := time.monotonic()) < until or (
            now < until + LATEST and any(map(eq, before, happened()))
        ):
            callers.check()
            time.sleep(0.5)
        began = time.monotonic()
        recovered = quiet.run(nemesis.end_all if nemesis is not None else lambda: None)
        say(f"quiet after {time.monotonic() - began:.0f} s; {left:.0f} s of faults to come")
        if not recovered:
            return
        callers.resume()
