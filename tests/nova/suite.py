"""Run the suites of Nova's functional tests that concern a compute host, and compare two runs.

A program of the virtual environment with Nova, see ``tools/nova-suite``::

    python -m tests.nova.suite [--plain] [--processes N] RESULTS
    python -m tests.nova.suite --compare PLAIN OURS

RESULTS is what `tests.nova.runner` writes. A run that was interrupted goes on where it ended.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

RUNNER = Path(__file__).with_name("runner.py")
#: Of the package ``nova.tests.functional``.
SUITES = (
    *("libvirt/**/test_*.py", "compute/**/test_*.py", "regressions/**/test_*.py"),
    *("notification_sample_tests/**/test_*.py", "test_servers*.py", "test_evacuate*.py"),
    *("test_cold_migrate*.py", "test_live_migration*.py"),
)
#: Modules that one process runs. A process that has run many tests becomes slow.
AT_ONCE = 8
#: Seconds for one test.
PATIENCE = 900
PASSED = ("passed", "skipped")

#: Outcomes of tests, by name, as `tests.nova.runner` writes them.
Outcomes = Mapping[str, Mapping[str, Any]]


def modules() -> list[str]:
    """Return the names of the modules of the suites, in an order that is always the same."""
    nova = find_spec("nova")
    assert nova is not None and nova.submodule_search_locations is not None
    package = Path(nova.submodule_search_locations[0])
    directory = package / "tests/functional"
    files = {file for suite in SUITES for file in directory.glob(suite)}
    names = sorted(
        ".".join(file.with_suffix("").relative_to(package.parent).parts) for file in files
    )
    # Slow modules are neighbours by name.
    random.Random(0).shuffle(names)
    return names


def run(results: Path, processes: int, *options: str) -> None:
    """Run the suites, and append the outcomes to a file."""
    names = modules()
    parts = [names[n : n + AT_ONCE] for n in range(0, len(names), AT_ONCE)]
    environment = {
        **os.environ,
        "OS_STDOUT_CAPTURE": "1",
        "OS_STDERR_CAPTURE": "1",
        "OS_TEST_TIMEOUT": str(PATIENCE),
        "PYTHONWARNINGS": "ignore",
    }

    def run_part(part: Sequence[str]) -> None:
        with TemporaryDirectory() as directory:
            listed = Path(directory, "modules")
            listed.write_text("\n".join(part))
            command = [sys.executable, str(RUNNER), *options, str(listed), str(results)]
            done = subprocess.run(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode:
            raise SystemExit(f"{shlex.join(command)} failed: {done.stderr[-2000:]}")
        print(f"{results}: {counts(read(results))}", flush=True)

    with ThreadPoolExecutor(processes) as pool:
        list(pool.map(run_part, parts))


def read(results: Path) -> Outcomes:
    """Return the outcomes in a file."""
    lines = results.read_text().splitlines() if results.exists() else ()
    return {each["name"]: each for each in map(json.loads, lines)}


def counts(outcomes: Outcomes) -> str:
    """Return a line with the number of tests of each status."""
    found = Counter(each["status"] for each in outcomes.values())
    return ", ".join(f"{number} {status}" for status, number in sorted(found.items()))


def differences(plain: Outcomes, ours: Outcomes) -> Iterator[str]:
    """Yield a line for each test that both runs have, and that passes in one of them."""
    for name in sorted(plain.keys() & ours.keys()):
        first, second = (each[name]["status"] for each in (plain, ours))
        if (first in PASSED) != (second in PASSED):
            yield f"{name}: {first} without rtagent, {second} with it"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suites, or compare two runs, and return the exit code."""
    parser = argparse.ArgumentParser("tools/nova-suite")
    parser.add_argument("--plain", action="store_true", help="with Nova's own tracker")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("PLAIN", "OURS"))
    parser.add_argument("results", nargs="?", type=Path, help="a file, one JSON line for each test")
    options = parser.parse_args(arguments)
    if options.compare:
        for each in options.compare:
            if not each.exists():
                parser.error(f"{each} does not exist")
        plain, ours = map(read, options.compare)
        found = list(differences(plain, ours))
        print(
            f"without rtagent: {counts(plain)}",
            f"with it: {counts(ours)}",
            f"in one of the runs only: {len(plain.keys() ^ ours.keys())}",
            *found,
            sep="\n",
        )
        return 1 if found else 0
    if options.results is None:
        parser.error("RESULTS is missing")
    if not options.results.parent.is_dir():
        parser.error(f"{options.results.parent} is not a directory")
    run(options.results, options.processes, *(["--plain"] if options.plain else []))
    left = [each for each in read(options.results).values() if each["status"] not in PASSED]
    for each in left:
        print(f"{each['name']}: {each['status']}")
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
