"""Run `rtagent` commands, each in a process of its own, without importing everything each time.

A demonstration runs some fifty commands. Most of the time of each would go into its imports.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Seconds after which a command is killed.
TIMEOUT = 300

# A server process that has imported every command forks each of them.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["demo.imported"])


def call(
    arguments: Sequence[str], environment: Mapping[str, str], *, merged: bool
) -> subprocess.CompletedProcess[str]:
    """Run `rtagent`. :param merged: its messages are among its output, as on a terminal.

    :raises subprocess.TimeoutExpired: it was killed.
    """
    with tempfile.TemporaryDirectory(prefix="rtagent-demo-") as directory:
        out, err = Path(directory, "out"), Path(directory, "err")
        process = _processes.Process(
            target=_run,
            args=(list(arguments), dict(environment), out, out if merged else err),
            daemon=True,
        )
        process.start()
        process.join(TIMEOUT)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(["rtagent", *arguments], TIMEOUT)
        said = None if merged else err.read_text()
        return subprocess.CompletedProcess(
            ["rtagent", *arguments], process.exitcode, out.read_text(), said
        )


def _run(arguments: list[str], environment: Mapping[str, str], out: Path, err: Path) -> None:
    """Be the command."""
    os.environ.clear()
    os.environ.update(environment)
    append = os.O_WRONLY | os.O_CREAT | os.O_APPEND  # both may be one file
    streams = ((Path(os.devnull), os.O_RDONLY), (out, append), (err, append))
    for number, (path, flags) in enumerate(streams):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    from rtagent.cmd.rtagent import main

    sys.exit(main(arguments))
