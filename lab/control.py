"""Start and stop the background process (`lab.runner`) of `tools/lab boot`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from lab.places import HOSTS, LAB

PID = LAB / "runner.pid"
LOG = LAB / "runner.log"
#: Seconds until the hosts are switched off.
PATIENCE = 60.0


class ControlFailed(Exception):
    """Hosts do not start, run already, or do not exist."""


def check_none() -> None:
    """Check that no hosts run. :raises ControlFailed: hosts run."""
    if _runner() is not None:
        raise ControlFailed("hosts are running already: tools/lab stop")


def start(number: int, profile: str) -> Iterator[str]:
    """Start hosts that run until `stop`; yield the name of each when its agent is ready.

    :raises ControlFailed:
    """
    check_none()
    # Links that a killed runner has left.
    shutil.rmtree(HOSTS, ignore_errors=True)
    with LOG.open("wb") as log:
        runner = subprocess.Popen(
            [sys.executable, "-m", "lab.runner", str(number), profile],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    PID.write_text(str(runner.pid))
    try:
        yield from _served(runner, number)
    except KeyboardInterrupt:
        stop()
        raise


def _served(runner: subprocess.Popen[bytes], number: int) -> Iterator[str]:
    up: set[str] = set()
    while len(up) < number:
        if runner.poll() is not None:
            raise ControlFailed("\n".join(LOG.read_text().splitlines()[-20:]))
        new = set(hosts()) - up
        yield from sorted(new)
        up |= new
        time.sleep(0.2)


def hosts() -> list[str]:
    """Return the names of the hosts whose agents are ready."""
    return sorted(host.name for host in HOSTS.glob("*"))


def directory(name: str) -> Path:
    """Return the directory of a host whose agent is ready. :raises ControlFailed:"""
    there = hosts() if _runner() is not None else []
    if name not in there:
        known = f"running: {', '.join(there)}" if there else "none is running: tools/lab boot"
        raise ControlFailed(f"there is no host {name}; {known}")
    # Resolve the link: the path of a socket must be short.
    return (HOSTS / name).resolve()


def stop() -> None:
    """Stop all hosts, if any run. :raises ControlFailed: the process does not end."""
    runner = _runner()
    if runner is None:
        return
    os.kill(runner.pid, signal.SIGTERM)
    try:
        runner.wait(PATIENCE)
    except psutil.TimeoutExpired as exc:
        raise ControlFailed(f"process {runner.pid} does not end") from exc


def _runner() -> psutil.Process | None:
    """Return the process that runs the hosts, if there is one."""
    try:
        found = psutil.Process(int(PID.read_text()))
        return found if "lab.runner" in found.cmdline() else None
    except (OSError, ValueError, psutil.NoSuchProcess):
        return None
