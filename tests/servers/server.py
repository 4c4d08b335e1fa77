"""The common part of the servers: start, wait for an answer, stop, restart, clean up."""

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from tests.servers.process import Process, Runner

#: The most workers of a test run, see tools/test.
WORKERS = 8
_returned: set[int] = set()


class ServerFailed(Exception):
    """A server did not start; the message ends with the last lines of its log."""


class Server(Runner, ABC):
    """A server that listens on a port of this machine from `start()` to `close()`."""

    name: ClassVar[str]
    #: Whether the command is a module and its arguments (`ForkedProgram`).
    forked: ClassVar[bool] = False
    stop_signal: ClassVar[signal.Signals] = signal.SIGTERM
    start_timeout: ClassVar[float] = 240.0
    stop_timeout: ClassVar[float] = 90.0

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix=f"{self.name}-"))
        self.directory.chmod(0o755)  # some servers run as a user of their own
        self.log = self.directory / "log"
        self._prepared = False

    @abstractmethod
    def prepare(self) -> None:
        """Create the data directory. Called once, before the first start."""

    @abstractmethod
    def command(self) -> Sequence[str]:
        """Return the command that runs the server in the foreground."""

    def environment(self) -> Mapping[str, str]:
        """Return the variables that the command needs besides those of this process."""
        return {}

    @abstractmethod
    def answers(self) -> bool:
        """Return whether a client gets an answer."""

    def start(self) -> Self:
        """Start the server, unless it runs, and return when it answers."""
        if not self.running:
            self.launch()
            self.wait_answers()
        return self

    def launch(self) -> None:
        """Start the server, which must not run. `answers` shows when it is ready."""
        if not self._prepared:
            self.prepare()
            self._prepared = True
        self._process = Process(
            self.command(),
            self.environment(),
            self.directory,
            self.log,
            self.stop_signal,
            forked=self.forked,
        )

    def stop(self) -> None:
        """Shut the server down cleanly, as a package upgrade does."""
        if self._process is not None:
            self._process.stop(self.stop_timeout)

    def close(self) -> None:
        """Stop the server and remove its data."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    @contextlib.contextmanager
    def outage(self) -> Iterator[None]:
        """Stop the server for the length of the block."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, *command: str, text: str = "") -> str:
        """Run a command that prepares the server, and return its output.

        :param text: what it reads. :raises ServerFailed: with the output.
        """
        result = subprocess.run(
            command,
            env={**os.environ, **self.environment()},
            cwd=self.directory,
            input=text,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if result.returncode:
            raise ServerFailed(f"{command[0]} exited with {result.returncode}: {result.stdout}")
        return result.stdout

    def wait_answers(self) -> None:
        """Wait until a server that was launched answers. :raises ServerFailed: it does not."""
        deadline = time.monotonic() + self.start_timeout
        while not self.answers():
            if not self.running:
                raise ServerFailed(f"{self.name} ended: {self._last_lines()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailed(f"{self.name} did not answer: {self._last_lines()}")
            time.sleep(0.05)

    def _last_lines(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-20:])


def free_port() -> int:
    """Return a loopback port that is free, and that this process has not returned before.

    A server binds its port seconds after it got the number, so each worker of a test run takes
    numbers of its own. All are below the range from which Linux takes ports for clients: a port of
    that range could be taken by a client's connection while the server is stopped.
    """
    while True:
        port = random.choice(_ports())
        if port not in _returned and _is_free(port):
            _returned.add(port)
            return port


def _ports() -> range:
    """The numbers of this worker: every eighth, because there are at most eight workers."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return range(20000 + worker % WORKERS, 32000, WORKERS)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def accepts(port: int) -> bool:
    """Return whether a server listens on the loopback port."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def as_user(user: str) -> list[str]:
    """Return the start of a command that root runs as `user`, for servers that refuse root."""
    if os.geteuid() != 0:
        return []
    return ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--"]
