"""One process with its children, which are killed if the test run dies."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

# Waits for the end of its standard input, which comes when the process with the other end dies.
_REAPER = """
read -r _
kill -s "$2" -- "-$1"
for _ in 1 2 3 4 5 6 7 8 9 10; do kill -s 0 -- "-$1" && sleep 0.5; done
kill -s KILL -- "-$1"
for file in "$3"/run/libvirt/qemu/*.pid; do kill -s KILL "$(cat "$file")"; done
rm -rf -- "$3"
"""


class Process:
    """A running command in a session of its own, whose output is appended to `log`.

    Its children get signals, too, even those that have left the process group.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        log: Path,
        stop_signal: signal.Signals,
        *,
        forked: bool = False,
    ) -> None:
        """:param forked: whether the command is a module and its arguments (`ForkedProgram`)."""
        self._stop_signal = stop_signal
        environment = {**os.environ, **environment}
        if forked:
            # Nova's tests run with greenlets, where no process can be forked from another.
            from tests.servers.forked import ForkedProgram

            self._popen: ForkedProgram | subprocess.Popen[bytes] = ForkedProgram(
                command[0], command[1:], environment, directory, log
            )
        else:
            self._popen = _execute(command, environment, directory, log)
        self._reaper = subprocess.Popen(
            ["sh", "-c", _REAPER, "reaper", str(self.pid), stop_signal.name[3:], str(directory)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code; minus the signal that ended it; None while it runs."""
        return self._popen.poll()

    def send(self, number: int) -> None:
        """Send a signal to the process, but not to its children."""
        self._popen.send_signal(number)

    def wait(self, timeout: float) -> int:
        """Wait until it ends by itself; return its exit code. :raises subprocess.TimeoutExpired:"""
        code = self._popen.wait(timeout)
        self._release()
        return code

    def stop(self, timeout: float) -> None:
        """Ask it to end, and kill what has not ended after `timeout` seconds."""
        family = self._family()
        self._resume(family)
        if self.running:
            self._popen.send_signal(self._stop_signal)
        self._reap(family, timeout)

    def kill(self) -> None:
        """Kill it with its children, as a power failure does."""
        family = self._family()
        _signal(family, signal.SIGKILL)
        self._reap(family, 0.0)

    def freeze(self) -> None:
        """Suspend it: sockets stay open, and nothing answers.

        Returns when every process has stopped. One may be forked while the signals are sent.
        """
        while running := [process for process in self._family() if not _stopped(process)]:
            _signal(running, signal.SIGSTOP)
            time.sleep(0.01)

    def thaw(self) -> None:
        """End a `freeze()`."""
        self._resume(self._family())

    def _resume(self, family: Sequence[psutil.Process]) -> None:
        _signal(family, signal.SIGCONT)

    def _family(self) -> list[psutil.Process]:
        try:
            process = psutil.Process(self.pid)
            return [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _reap(self, family: Sequence[psutil.Process], timeout: float) -> None:
        _, alive = psutil.wait_procs(family, timeout)
        _signal(alive, signal.SIGKILL)
        psutil.wait_procs(alive, 60)
        self._popen.wait(60)
        self._release()

    def _release(self) -> None:
        self._reaper.kill()
        self._reaper.communicate()


def _execute(
    command: Sequence[str], environment: Mapping[str, str], directory: Path, log: Path
) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            list(command),
            env=environment,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _stopped(process: psutil.Process) -> bool:
    try:
        return process.status() in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def _signal(family: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in family:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue


class Runner:
    """Runs one process at a time, which a test may kill or suspend."""

    _process: Process | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    @property
    def pid(self) -> int:
        """The process id of the program itself."""
        assert self._process is not None
        return self._process.pid

    def kill(self) -> None:
        """Send SIGKILL to the process and its children, as in a power failure."""
        assert self._process is not None
        self._process.kill()

    def freeze(self) -> None:
        """Send SIGSTOP to them: connections stay open, nothing answers."""
        assert self._process is not None
        self._process.freeze()

    def thaw(self) -> None:
        """End a `freeze()`."""
        assert self._process is not None
        self._process.thaw()
