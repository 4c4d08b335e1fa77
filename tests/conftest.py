"""Options and profiles that every layer of the tests shares."""

import gc
import logging
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

import rtagent.cmd  # noqa: F401  after it, no library imports eventlet

TESTS = Path(__file__).parent
#: The folders whose tests compute, and wait for no server: those with the largest files first.
COMPUTING = ("documents", "interleavings", "property", "unit")
#: Folders with tests that wait longest, for time-outs of daemons: they begin before the others.
LONGEST_WAITS = ("regressions/", "functional/service/", "functional/virt/")
#: Folders of which one worker runs all files, because these share a server that starts slowly.
TOGETHER = ("tests/functional/broker/", "tests/functional/page/")

pytest_plugins = ["tests.servers.fixtures"]
# Thousands of tests are collected, and none of them is garbage: a quarter of the time went into
# looking for some.
gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="run fewer random examples")
    parser.addoption("--long", action="store_true", help="run the tests with the larger numbers")


def pytest_configure(config: pytest.Config) -> None:
    # Clients that outlive their broker must not talk behind pytest's closing line.
    logging.getLogger().addHandler(logging.NullHandler())
    quiet = [HealthCheck.too_slow, HealthCheck.data_too_large]
    # The examples are the same in each run, so more of them belong into the long one.
    settings.register_profile(
        "short", deadline=None, derandomize=True, max_examples=50, suppress_health_check=quiet
    )
    settings.register_profile("long", settings.get_profile("short"), max_examples=2000)
    settings.register_profile("fast", settings.get_profile("short"), max_examples=15)
    chosen = [name for name in ("long", "fast") if config.getoption(name)]
    settings.load_profile(chosen[0] if chosen else "short")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """Let one worker run a file, or a folder of `TOGETHER`, if that is asked for by file."""
    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


class ByFile(LoadFileScheduling):
    """One worker runs a file, or a folder of `TOGETHER`."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return next((folder for folder in TOGETHER if file.startswith(folder)), file)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest: one worker runs each, and the others would wait.
    Tests that compute come between those that wait for servers; the last ones are unit tests.
    """
    longest, computing, waiting = list[Path](), list[Path](), list[Path]()
    for path in dict.fromkeys(item.path for item in items):
        layer = path.relative_to(TESTS).parts[0]
        kind = longest if layer == "nova" else computing if layer in COMPUTING else waiting
        kind.append(path)
    computing.sort(key=lambda path: COMPUTING.index(path.relative_to(TESTS).parts[0]))
    waiting.sort(key=lambda path: not path.relative_to(TESTS).as_posix().startswith(LONGEST_WAITS))
    places = dict.fromkeys(longest, -1.0)
    for files, share in ((computing, 1.0), (waiting, 0.65)):
        places |= {path: share * number / len(files) for number, path in enumerate(files)}
    items.sort(key=lambda item: places[item.path])


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many documents of others were read (tests/documents), by the tag of their root."""
    read = Counter[str]()
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties if report.when == "call" else ():
            if name.startswith("<"):
                read[name] += value
    if read:
        kinds = ", ".join(f"{number} {name}" for name, number in sorted(read.items()))
        terminalreporter.write_line(f"Documents of others that were read as they should: {kinds}")


@pytest.fixture(scope="session")
def fast(request: pytest.FixtureRequest) -> bool:
    """Whether this run is one with fewer examples."""
    return bool(request.config.getoption("fast"))


@pytest.fixture(scope="session")
def long(request: pytest.FixtureRequest) -> bool:
    """Whether this run is one with the larger numbers."""
    return bool(request.config.getoption("long"))


@pytest.fixture(scope="session")
def every(fast: bool, long: bool) -> int:
    """One of how many cases is tried where a test could try them all."""
    return 1 if long else 10 if fast else 3
