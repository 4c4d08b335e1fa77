"""Nova's own functional tests, and those of restarts, with rtagent's tracker in Nova's place.

They run in the virtual environment with Nova, which `tools/test` makes.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.nova.releases import HERE, names_in
from tests.servers.neutron import ENVIRONMENT

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ENVIRONMENT / "bin/python"
#: Processes that run Nova's tests side by side: one for each CPU of the smallest machine.
PROCESSES = 2
#: Seconds for all tests, and for one. On idle CPUs they need a small part of it.
PATIENCE, PATIENCE_OF_ONE = 3000, 300
#: Seconds in which a test that has timed out ends.
END = 60
QUICK, OWN, LONG, SERVED = map(names_in, ("quick", "own", "long", "served"))
NAMES = (*QUICK, *OWN, *SERVED)
#: The environment of tests for which Nova must not replace threads by greenlets.
THREADS = {"OS_NOVA_DISABLE_EVENTLET_PATCHING": "1"}

Outcomes = Mapping[str, Mapping[str, Any]]
#: Tests, and what their environment has besides.
Part = tuple[Sequence[str], Mapping[str, str]]
#: What a test raises that has taken longer than `PATIENCE_OF_ONE`.
TIMED_OUT = "TimeoutException"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """The outcome of each test, by its name."""
    return outcomes_of(tmp_path_factory.mktemp("nova"), (*QUICK, *OWN), SERVED)


@pytest.fixture(scope="module")
def long_outcomes(tmp_path_factory: pytest.TempPathFactory, long: bool) -> Outcomes:
    """The outcome of each test that only a long run has."""
    if not long:
        pytest.skip("--long: other tests exercise the same, or the process ends at each write")
    return outcomes_of(tmp_path_factory.mktemp("nova-long"), LONG)


def outcomes_of(directory: Path, greenlets: Sequence[str], threads: Sequence[str] = ()) -> Outcomes:
    """Run tests with greenlets and tests with threads, and return the outcome of each."""
    parts: list[Part] = [(greenlets[n::PROCESSES], {}) for n in range(PROCESSES)]
    run(directory / "first", [*parts, (threads, THREADS)] if threads else parts)
    found = results(directory / "first")
    # On a busy machine a thread of Nova's may starve in a process with many earlier tests.
    late = [name for name, line in found.items() if TIMED_OUT in line["text"]]
    for number, name in enumerate(late):
        again = directory / f"again-{number}"
        run(again, [([name], THREADS if name in threads else {})])
        found |= results(again)
    return found


def run(directory: Path, parts: Sequence[Part]) -> None:
    """Run tests, each part in a process of its own, side by side."""
    directory.mkdir()
    with ThreadPoolExecutor(len(parts)) as pool:
        futures = [
            pool.submit(run_part, directory, str(number), *part)
            for number, part in enumerate(parts)
        ]
        for future in futures:
            future.result()


def run_part(
    directory: Path, part: str, tests: Sequence[str], environment: Mapping[str, str]
) -> None:
    """Run tests in one process, and in another one after a test that does not end: one that has
    timed out may wait for its own threads.
    """
    file = directory / f"results-{part}"
    file.touch()
    while True:
        with started(directory, part, tests, environment) as process:
            hangs = is_hanging(process, file)
        found = results(directory)
        left = [name for name in tests if name not in found]
        if not (hangs and left):
            return
        late = {"name": left[0], "status": "error", "text": f"{TIMED_OUT}: see log-{part}"}
        with file.open("a") as written:
            written.write(json.dumps(late) + "\n")


def is_hanging(process: subprocess.Popen[bytes], file: Path) -> bool:
    """Wait until the process ends, or until a test of it does not end."""
    size, since = file.stat().st_size, time.monotonic()
    while time.monotonic() - since < PATIENCE_OF_ONE + END:
        with suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
            return False
        if file.stat().st_size > size:
            size, since = file.stat().st_size, time.monotonic()
    return True


@contextmanager
def started(
    directory: Path, part: str, tests: Sequence[str], environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs these tests."""
    names, log = directory / f"names-{part}", directory / f"log-{part}"
    names.write_text("\n".join(tests))
    command = [PYTHON, HERE / "runner.py", names, directory / f"results-{part}"]
    environment = {
        **os.environ,
        **environment,
        "OS_STDOUT_CAPTURE": "1",
        "OS_STDERR_CAPTURE": "1",
        "OS_TEST_TIMEOUT": str(PATIENCE_OF_ONE),
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "ignore",
    }
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def results(directory: Path) -> dict[str, Mapping[str, Any]]:
    """Return the outcome of each test that has ended, by its name."""
    lines = (line for file in directory.glob("results-*") for line in file.read_text().splitlines())
    return {line["name"]: line for line in map(json.loads, lines)}


@pytest.mark.timeout(PATIENCE + 60)
@pytest.mark.parametrize("name", NAMES)
def test_passes_with_our_tracker(outcomes: Outcomes, name: str) -> None:
    assert name in outcomes, "it did not run"
    assert outcomes[name]["status"] == "passed", outcomes[name]["text"]


@pytest.mark.timeout(PATIENCE + 60)
@pytest.mark.parametrize("name", LONG)
def test_passes_in_a_long_run(long_outcomes: Outcomes, name: str) -> None:
    assert name in long_outcomes, "it did not run"
    assert long_outcomes[name]["status"] == "passed", long_outcomes[name]["text"]
