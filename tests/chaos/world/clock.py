"""Clocks: the time of day of one process, which can be stepped while it runs."""

import mmap
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

_SOURCE = Path(__file__).with_name("clock.c")
_STEP = struct.Struct("=q")


class Steps(Protocol):
    """A clock of an agent, which can be stepped."""

    def step(self, seconds: int) -> None:
        """Set it to the time of this machine plus so many seconds; negative: back."""


class Clock:
    """The time of day of the processes that are started with `environment`.

    A library of ours is loaded into the process. libfaketime cannot be used: with it ``time.sleep``
    of the interpreter, which waits for a time of the monotonic clock, fails after a step.
    """

    def __init__(self, directory: Path) -> None:
        """:param directory: gets the compiled library and the file of the step.
        :raises subprocess.CalledProcessError: the compiler fails; bindep.txt lists it.
        """
        self._library, self._file = directory / "clock.so", directory / "clock"
        command = ["gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", str(self._library)]
        subprocess.run([*command, str(_SOURCE)], check=True)
        self._file.write_bytes(_STEP.pack(0))
        with self._file.open("r+b") as opened:
            self._step = mmap.mmap(opened.fileno(), _STEP.size)

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables with which a process is started."""
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK": str(self._file)}

    def step(self, seconds: int) -> None:
        """Set the clock to the time of the system plus so many seconds; negative: back."""
        self._step[:] = _STEP.pack(seconds)
