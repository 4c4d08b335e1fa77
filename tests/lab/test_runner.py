"""The process that runs the hosts of tools/lab."""

from __future__ import annotations

import subprocess
import sys

import psutil

from lab import image
from lab.control import PATIENCE
from lab.places import ROOT
from tests.lab.rack import wait_until

EMULATOR = "qemu-system-x86_64"


def test_hosts_that_boot_are_switched_off_at_once():
    image.build()
    command = [sys.executable, "-m", "lab.runner", "1", "no-sriov"]
    with subprocess.Popen(command, cwd=ROOT) as runner:
        process = psutil.Process(runner.pid)
        wait_until(lambda: EMULATOR in {each.name() for each in process.children()})
        children = process.children(recursive=True)
        runner.terminate()
        runner.wait(PATIENCE)
    assert not psutil.wait_procs(children, PATIENCE)[1]
