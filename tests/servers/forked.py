"""Programs of rtagent as processes that are forked from one that has imported them.

Most of the CPU time of a start goes into imports, and a run of the tests has hundreds of starts.
"""

import multiprocessing
import multiprocessing.connection
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

#: The server process imports this before it forks. There is one list: the last one that is set
#: holds for every user.
_IMPORTED = ["tests.servers.imported"]
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(_IMPORTED)

#: Seconds after which a command is killed.
COMMAND_TIMEOUT = 300.0
#: multiprocessing reads the exit code of any ended process when it starts another.
_lock = threading.Lock()


class ForkedProgram:
    """One running program, with the methods of `subprocess.Popen`.

    It has a session of its own, and nothing on its standard input.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        output: Path,
        errors: Path | None = None,
    ) -> None:
        """:param module: its function ``main`` takes the arguments and returns the exit code.
        :param environment: all variables. :param directory: in which it runs.
        :param output: a file to append to. :param errors: by default the same.
        """
        self._name = module
        output.touch()
        self._process = processes.Process(
            target=_run,
            args=(module, [*arguments], {**environment}, directory, output, errors or output),
            daemon=True,
        )
        with _lock:
            self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        """Return the exit code; minus the signal that ended it; None while it runs."""
        with _lock:
            return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """Wait until it ends; return its exit code. :raises subprocess.TimeoutExpired:"""
        multiprocessing.connection.wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired([self._name], timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def run_rtagent(
    arguments: Sequence[str], environment: Mapping[str, str], directory: Path, *, merged: bool
) -> subprocess.CompletedProcess[str]:
    """Run `rtagent` in a directory. :param merged: its messages are among its output.

    :raises subprocess.TimeoutExpired: it was killed, after `COMMAND_TIMEOUT`.
    """
    with tempfile.TemporaryDirectory(prefix="rtagent-output-") as files:
        out, err = Path(files, "out"), Path(files, "err")
        command = ForkedProgram(
            "rtagent.cmd.rtagent", arguments, environment, directory, out, out if merged else err
        )
        try:
            code = command.wait(COMMAND_TIMEOUT)
        except subprocess.TimeoutExpired:
            command.send_signal(signal.SIGKILL)
            raise
        said = None if merged else err.read_text()
        return subprocess.CompletedProcess(["rtagent", *arguments], code, out.read_text(), said)


def _run(
    module: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    directory: Path,
    output: Path,
    errors: Path,
) -> None:
    """Be the program."""
    os.setsid()
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND  # both may be one file
    streams = ((Path(os.devnull), os.O_RDONLY), (output, append), (errors, append))
    for number, (path, flags) in enumerate(streams):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    main = import_module(module)
    sys.argv = [str(main.__file__), *arguments]
    sys.exit(main.main(arguments))
