"""Run rtagent in this process."""

import io
import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rtagent.cmd.rtagent import Shell
from tests.servers.daemon import Daemon, wait_until


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Outcome]


class _Messages(io.StringIO):
    """What the thread that made it writes.

    Others log, too: agents and clients of earlier tests may still look for their broker.
    """

    def __init__(self) -> None:
        super().__init__()
        self._owner = threading.get_ident()

    def write(self, text: str) -> int:
        return super().write(text) if threading.get_ident() == self._owner else len(text)


def run(*argv: str) -> Outcome:
    out, err = io.StringIO(), _Messages()
    code = Shell(out, err).run(list(argv))
    return Outcome(code, out.getvalue(), err.getvalue())


def configured(directory: Path, text: str) -> Run:
    """Return what runs a command with this configuration, which is written into the directory."""
    file = directory / "rtagent.conf"
    file.write_text(text)
    return partial(run, "--config-file", str(file))


def serving(daemon: Daemon) -> Daemon:
    """Wait until it is ready and connected to the broker; an earlier call would time out."""
    daemon.wait_ready()
    wait_until(lambda: "pass" in str(daemon.read("health")["checks"].get("rpc")))
    return daemon
