"""Search: short runs on a tree with a defect, until a violation is found.

The history is judged while the run goes on: a part of a history without a violation has none.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.checker.judge import judge
from tests.chaos.checker.run import Run
from tests.chaos.checker.violation import Violation
from tests.chaos.planted.defect import Defect
from tests.chaos.planted.tree import environment
from tests.chaos.world.keys import is_signed

#: Seconds within which a defect must be found.
LIMIT = 600.0
#: Minutes of calls in each run, and seconds that its start and its quiet periods may take.
MINUTES, MARGIN = 2.0, 400.0
#: Seconds between two judgements of a history, and for which a run may take to end.
PAUSE, ENDING = 5.0, 120.0
#: Runs without a history that are made before the search fails.
FAILURES = 2
#: The file of a run's history, in its directory.
HISTORY = "history.jsonl"
#: The file of what the runs print, in the tree.
LOG = "run.log"
#: Hosts of a run.
HOSTS = 2


class RunFailed(Exception):
    """Runs have left no history."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """:ivar seconds: that the search took. :ivar runs: how many were made. :ivar seed: of the last.
    :ivar violation: the first one of the expected promises, or None.
    """

    defect: Defect
    seconds: float
    runs: int
    seed: int
    violation: Violation | None = None

    def __str__(self) -> str:
        if self.violation is None:
            return f"{self.defect.name}: NOT FOUND in {self.seconds:.0f} s ({self.runs} runs)"
        where = f"found after {self.seconds:.0f} s, in run {self.runs}, with seed {self.seed}"
        return f"{self.defect.name}: {where}:\n    {self.violation}"


def search(
    defect: Defect,
    tree: Path,
    say: Callable[[str], None],
    limit: float = LIMIT,
    first_seed: int = 1,
) -> Finding:
    """Make runs with other seeds until the checker finds the defect, or the time is over.

    :param tree: with the defect, see `plant`. :param limit: seconds. :param first_seed: the
        lowest one that is tried.
    :raises RunFailed: `FAILURES` runs have left no history.
    """
    began, failures, runs = time.monotonic(), 0, 0
    for seed in _seeds(defect, first_seed):
        runs += 1
        say(f"{defect.name}: run {runs}, with seed {seed}")
        directory = tree / f"run-{runs}"
        with _running(defect, tree, directory, seed) as process:
            found = _watch(process, defect, directory, began + limit)
        seconds = time.monotonic() - began
        if found or seconds >= limit:
            break
        if not (directory / HISTORY).is_file():
            failures += 1
            log = (tree / LOG).read_text()[-2000:]
            say(f"{defect.name}: run {runs} has left no history")
            if failures == FAILURES:
                raise RunFailed(f"{defect.name}: {failures} runs have left no history:\n{log}")
    return Finding(
        defect=defect,
        seconds=seconds,
        runs=runs,
        seed=seed,
        violation=found[0] if found else None,
    )


def _seeds(defect: Defect, first: int) -> Iterator[int]:
    """Yield the seeds whose worlds can show the defect."""
    return (seed for seed in itertools.count(first) if is_signed(seed) or not defect.signed)


@contextlib.contextmanager
def _running(
    defect: Defect, tree: Path, directory: Path, seed: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Make one run on the tree.

    It has ended, and removed what it had started, when the block has. It is in a session of its
    own, because a second Ctrl-C would interrupt that.
    """
    command = [sys.executable, "-m", "tests.chaos", "--minutes", str(MINUTES), "--seed", str(seed)]
    command += ["--keep", str(directory), "--hosts", str(HOSTS), *defect.options]
    with (tree / LOG).open("a") as log:
        process = subprocess.Popen(
            command,
            cwd=tree,
            env=environment(tree),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(ENDING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _watch(
    process: subprocess.Popen[bytes], defect: Defect, directory: Path, deadline: float
) -> list[Violation]:
    """Judge the history of a run until the defect is found, the run has ended, or it is too late.

    :return: the violations of the promises that the defect breaks.
    """
    deadline = min(deadline, time.monotonic() + MINUTES * 60 + MARGIN)
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, min(PAUSE, deadline - time.monotonic())))
        over = process.poll() is not None or time.monotonic() >= deadline
        found = _judged(directory)
        expected = [each for each in found if each.promise.startswith(defect.promises)]
        if expected or over:
            return expected


def _judged(directory: Path) -> list[Violation]:
    """Return the violations in the history so far, judged by the checker of this tree."""
    history = directory / HISTORY
    return judge(Run.load(history)) if history.is_file() else []
