"""The keeper of `tools/lab boot`: started, and told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil

from lab.places import HOSTS, LAB

PID = LAB / "keeper.pid"
LOG = LAB / "keeper.log"
#: Seconds until the hosts are switched off.
PATIENCE = 60.0


class KeepingFailed(Exception):
    """Hosts that do not come up, or run already."""


def start(number: int, profile: str) -> Iterator[str]:
    """Hosts that run until `stop`; the name of each as it begins to serve.

    :raises KeepingFailed:
    """
    if _keeper() is not None:
        raise KeepingFailed("there are hosts already: tools/lab stop")
    with LOG.open("wb") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "lab.keeper", str(number), profile],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    PID.write_text(str(keeper.pid))
    up: set[str] = set()
    while len(up) < number:
        if keeper.poll() is not None:
            raise KeepingFailed("\n".join(LOG.read_text().splitlines()[-20:]))
        new = {host.name for host in HOSTS.glob("*")} - up
        yield from sorted(new)
        up |= new
        time.sleep(0.2)


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
