"""Run Nova's own functional tests in this process, with Nova's tracker or with rtagent's.

A program of the virtual environment with Nova, which `tests.nova.environment` names::

    python tests/nova/runner.py [--plain] LIST RESULTS

LIST contains the names of tests or of modules, one per line. Each test appends one JSON line to
RESULTS: ``{"name", "status", "seconds", "cpu_seconds", "text"}``. A test of RESULTS is not run.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
import traceback
import unittest
from collections.abc import Collection, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any


class Results(unittest.TestResult):
    """Appends the outcome of each test to a file."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._state = _state_directory()
        self._status, self._text = "", ""
        self._began, self._cpu = 0.0, 0.0

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        self._state = _state_directory()
        self._status, self._text = "passed", ""
        self._began, self._cpu = time.monotonic(), time.process_time()

    def addError(self, test: Any, err: Any = None, details: Any = None) -> None:
        self._note("error", err, details)

    def addFailure(self, test: Any, err: Any = None, details: Any = None) -> None:
        self._note("failed", err, details)

    def addSkip(self, test: Any, reason: Any = None, details: Any = None) -> None:
        self._status, self._text = "skipped", str(reason or details)

    def stopTest(self, test: Any) -> None:
        super().stopTest(test)
        self._state.cleanup()
        line = {
            "name": test.id(),
            "status": self._status,
            "seconds": round(time.monotonic() - self._began, 1),
            "cpu_seconds": round(time.process_time() - self._cpu, 1),
            "text": self._text,
        }
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def _note(self, status: str, err: Any, details: Any) -> None:
        self._status = status
        if details:
            parts = {key: value.as_text() for key, value in details.items()}
            self._text = "\n".join(f"{key}: {text}" for key, text in sorted(parts.items()))
        elif err:
            self._text = "".join(traceback.format_exception(*err))


def _state_directory() -> tempfile.TemporaryDirectory[str]:
    """Make a state directory of Nova's, in which it finds its files of the API, and let Nova's
    configuration have it: it reads options from the environment, too.
    """
    directory = tempfile.TemporaryDirectory(prefix="nova-state-")
    Path(directory.name, "etc").symlink_to(Path(sys.prefix, "etc"))
    os.environ["OS_DEFAULT__STATE_PATH"] = directory.name
    return directory


def flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """Yield the tests of a suite and of its parts."""
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from flat(each)
        else:
            yield each


def load(names: Sequence[str], done: Collection[str]) -> Iterator[unittest.TestCase]:
    """Yield tests, in the order of their names.

    :param names: of tests, or of modules: all tests of those. :param done: tests that are left out.
    :raises KeyError: there is no such test.
    """
    modules = {name: name if is_module(name) else name.rsplit(".", 2)[0] for name in names}
    loaded = unittest.TestLoader().loadTestsFromNames(sorted(set(modules.values())))
    found = {test.id(): test for test in flat(loaded)}
    for name, module in modules.items():
        tests = (
            [each for each in found if each.startswith(f"{name}.")] if name == module else [name]
        )
        for each in sorted(set(tests).difference(done)):
            # A test is not kept after it has run.
            yield found.pop(each)


def is_module(name: str) -> bool:
    """Return whether a dotted name is that of a module."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plain", action="store_true", help="with Nova's own tracker")
    parser.add_argument("list", type=Path)
    parser.add_argument("results", type=Path)
    options = parser.parse_args()
    # Nova's tests read the arguments of the process.
    sys.argv = sys.argv[:1]
    # It replaces blocking functions, and must be imported before anything that uses them.
    import nova.tests.functional  # noqa: F401

    if not options.plain:
        from rtagent.nova import hook

        hook.install()
    done: set[str] = set()
    if options.results.exists():
        done = {json.loads(line)["name"] for line in options.results.read_text().splitlines()}
    results = Results(options.results)
    # The garbage collector would look at all modules of Nova again and again: 15 % of the CPU time.
    gc.freeze()
    gc.set_threshold(50_000)
    for test in load(options.list.read_text().split(), done):
        test.run(results)
    # Threads of Nova's services may still run, and nothing of them is needed.
    os._exit(0)


if __name__ == "__main__":
    main()
