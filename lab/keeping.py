"""The keeper of `tools/lab boot`: started, and told to end."""

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

PID = LAB / "keeper.pid"
LOG = LAB / "keeper.log"
#: Seconds until the hosts are switched off.
PATIENCE = 60.0


class KeepingFailed(Exception):
    """Hosts that do not come up, run already, or are not there."""


def check_none() -> None:
    """:raises KeepingFailed: there are hosts."""
    if _keeper() is not None:
        raise KeepingFailed("there are hosts already: tools/lab stop")


def start(number: int, profile: str) -> Iterator[str]:
    """Hosts that run until `stop`; the name of each as it begins to serve.

    :raises KeepingFailed:
    """
    check_none()
    # Of a keeper that was killed.
    shutil.rmtree(HOSTS, ignore_errors=True)
    with LOG.open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "lab.keeper", str(number), profile],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    PID.write_text(str(keeper.pid))
    try:
        yield from _served(keeper, number)
    except KeyboardInterrupt:
        stop()
        raise


def _served(keeper: subprocess.Popen[bytes], number: int) -> Iterator[str]:
    up: set[str] = set()
    while len(up) < number:
        if keeper.poll() is not None:
            raise KeepingFailed("\n".join(LOG.read_text().splitlines()[-20:]))
        new = set(hosts()) - up
        yield from sorted(new)
        up |= new
        time.sleep(0.2)


def hosts() -> list[str]:
    """The names of those that serve."""
    return sorted(host.name for host in HOSTS.glob("*"))


def directory(name: str) -> Path:
    """Of a host that serves. :raises KeepingFailed:"""
    there = hosts() if _keeper() is not None else []
    if name not in there:
        known = f"there are {', '.join(there)}" if there else "none is up: tools/lab boot"
        raise KeepingFailed(f"there is no host {name}; {known}")
    # The link's target: the name of a socket must not be long.
    return (HOSTS / name).resolve()


def stop() -> None:
    """Nothing if there are none. :raises KeepingFailed: they do not end."""
    keeper = _keeper()
    if keeper is None:
        return
    os.kill(keeper.pid, signal.SIGTERM)
    try:
        keeper.wait(PATIENCE)
    except psutil.TimeoutExpired as exc:
        raise KeepingFailed(f"process {keeper.pid} does not end") from exc


def _keeper() -> psutil.Process | None:
    """The process that keeps hosts, if there is one."""
    try:
        found = psutil.Process(int(PID.read_text()))
        return found if "lab.keeper" in found.cmdline() else None
    except (OSError, ValueError, psutil.NoSuchProcess):
        return None
