"""Commands on a lab host, through QEMU's guest agent: without network and keys."""

from __future__ import annotations

import base64
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

from lab.channel import Channel, ChannelError, connected
from rtagent.model.base import Value

#: Seconds between two polls whether a command has ended: the first pause, and the longest. A poll
#: takes time on the emulated host.
PAUSE, LONGEST_PAUSE = 0.1, 1.0
#: Seconds to wait for one answer of the guest agent.
ANSWER = 120.0


class Done(Value, frozen=True, kw_only=True):
    """A command that has ended. :ivar code: exit code; minus the signal that ended it."""

    code: int
    stdout: str
    stderr: str


class Guest:
    """:param path: the socket of the guest agent's port."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def answers(self) -> bool:
        """Whether the guest agent is running."""
        try:
            with connected(self._path, 0) as channel:
                _begin(channel, 2.0)
        except ChannelError:
            return False
        return True

    def run(self, command: Sequence[str], timeout: float = 300.0, given: str = "") -> Done:
        """Run a program as root. :param given: its standard input.

        :raises ChannelError: the guest agent is unavailable or returned an error.
        :raises TimeoutError: the program has not ended; it is left running.
        """
        deadline = time.monotonic() + timeout
        with connected(self._path, ANSWER) as channel:
            _begin(channel, ANSWER)
            pid = channel.execute("guest-exec", ANSWER, _arguments(command, given))["pid"]
            pause = PAUSE
            while True:
                status = channel.execute("guest-exec-status", ANSWER, {"pid": pid})
                if status["exited"]:
                    return _done(status)
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{command} did not end in {timeout} s")
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)


def _begin(channel: Channel, timeout: float) -> None:
    """Discard answers that an earlier connection did not read."""
    token = secrets.randbits(31)
    channel.send({"execute": "guest-sync-delimited", "arguments": {"id": token}})
    while channel.receive(timeout).get("return") != token:
        continue


def _arguments(command: Sequence[str], given: str) -> dict[str, object]:
    return {
        "path": command[0],
        "arg": list(command[1:]),
        "input-data": base64.b64encode(given.encode()).decode(),
        "capture-output": True,
    }


def _done(status: dict[str, object]) -> Done:
    def text(name: str) -> str:
        return base64.b64decode(str(status.get(name, ""))).decode(errors="replace")

    code = status.get("exitcode", -int(str(status.get("signal", 0))))
    return Done(code=int(str(code)), stdout=text("out-data"), stderr=text("err-data"))
