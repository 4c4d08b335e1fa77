"""python -m benchmarks.nova [--quick] [--json FILE], in the virtual environment with Nova"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import mean
from typing import Any

from rich.console import Console

from benchmarks.figure import Figure
from benchmarks.results import Results
from tests.servers import MariaDB, Placement

GUESTS = 200
NAMES = ("nova_claims_0", "nova_claims_200", "nova_audit_200_cpu", "nova_contention_p99")
_CONFIGURATION = """\
[DEFAULT]
host = {host}
state_path = {directory}
transport_url = fake:/
default_log_levels = nova=ERROR
[database]
connection = {database}
[placement]
auth_type = admin_token
endpoint = {placement}
token = admin
[oslo_concurrency]
lock_path = {directory}
"""


class Host:
    """A process with one of the trackers, see `benchmarks.nova.tracker_process`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, command: str, number: int) -> Any:
        """Run a command, and return its result."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{command} {number}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def started(name: str, configuration: Path, *options: str) -> Iterator[Host]:
    """A host, which ends with the block."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.nova.tracker_process",
        *options,
        str(configuration),
        name,
    ]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    try:
        yield Host(process)
    finally:
        process.kill()
        process.wait()


def measure(rtagent: Host, nova: Host, rounds: int) -> Iterator[Figure]:
    """nova_claims_0, nova_claims_200: claims per second with that number of guests on the host.
    nova_audit_200_cpu: CPU time of an idle audit.
    nova_contention_p99: p99 of a claim while one audit follows the other.
    The floor is Nova's own tracker. Both are measured in turns of one run.
    """

    def turns(command: str, number: int) -> tuple[list[float], list[float]]:
        taken: tuple[list[float], list[float]] = ([], [])
        for _ in range(rounds):
            for host, mine in zip((rtagent, nova), taken, strict=True):
                mine.extend(host.run(command, number))
        return taken

    def rates(name: str, target: float) -> Figure:
        value, floor = (1 / mean(each) for each in turns("claims", 5))
        return Figure(
            name=name, value=value, floor=floor, unit="claims/s", target=target, at_least=True
        )

    turns("claims", 1)  # the first ones import and connect
    yield rates("nova_claims_0", 1)
    for host in (rtagent, nova):
        host.run("add_guests", GUESTS)
    yield rates("nova_claims_200", 5)
    value, floor = (mean(each) * 1000 for each in turns("audits", 1))
    yield Figure(name="nova_audit_200_cpu", value=value, floor=floor, unit="ms", target=1)
    value, floor = (percentile_99(each) * 1000 for each in turns("busy_claims", 5))
    yield Figure(name="nova_contention_p99", value=value, floor=floor, unit="ms", target=1)


def percentile_99(taken: Sequence[float]) -> float:
    """Return the value that 99 % of the values do not exceed."""
    return sorted(taken)[min(len(taken) - 1, int(0.99 * len(taken)))]


@contextmanager
def hosts() -> Iterator[tuple[Host, Host]]:
    """A host with rtagent's tracker and one with Nova's, with servers that end with the block."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-nova-")))
        database = stack.enter_context(MariaDB()).create_database()
        placement = stack.enter_context(Placement())
        mine, novas = (
            _configuration(directory / name, database, placement.url)
            for name in ("rtagent", "nova")
        )
        manage = [Path(sys.executable).with_name("nova-manage"), "--config-file", mine]
        subprocess.run(
            [*map(str, manage), "db", "sync", "--local_cell"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        yield (
            stack.enter_context(started("rtagent", mine)),
            stack.enter_context(started("nova", novas, "--plain")),
        )


def _configuration(directory: Path, database: str, placement: str) -> Path:
    """Write the configuration of a host, and return its file."""
    directory.mkdir()
    file = directory / "nova.conf"
    file.write_text(
        _CONFIGURATION.format(
            host=directory.name, directory=directory, database=database, placement=placement
        )
    )
    return file


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", help="write the figures there as well")
    options = parser.parse_args()
    results = Results(Console(), options.json, NAMES)
    with hosts() as (rtagent, nova):
        results.take("nova", lambda: measure(rtagent, nova, 2 if options.quick else 10))
    results.conclude()
    return 1 if results.failed else 0


if __name__ == "__main__":
    sys.exit(main())
