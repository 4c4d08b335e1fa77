"""Protocol of QEMU's monitor and guest agent: JSON documents, one per line."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class ChannelError(Exception):
    """The other end is unavailable or returned an error; the message says which."""


class Channel:
    """One connection to a unix socket. Every method raises `ChannelError`."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._lines = connection.makefile("rb")

    def send(self, document: object) -> None:
        try:
            self._socket.sendall(json.dumps(document).encode() + b"\n")
        except OSError as exc:
            raise ChannelError(f"cannot send: {exc}") from exc

    def receive(self, timeout: float) -> dict[str, Any]:
        """Return the next document. :param timeout: seconds to wait for it."""
        self._socket.settimeout(timeout)
        try:
            line = self._lines.readline()
        except OSError as exc:
            raise ChannelError(f"no answer in {timeout} s: {exc}") from exc
        if not line:
            raise ChannelError("the connection was closed")
        # After a reset the guest agent begins with a byte that is not JSON.
        document: dict[str, Any] = json.loads(line.lstrip(b"\xff"))
        return document

    def execute(self, command: str, timeout: float, arguments: object = None) -> Any:
        """Execute a command and return its result; events are ignored."""
        document = {"execute": command}
        self.send(document if arguments is None else {**document, "arguments": arguments})
        while True:
            answer = self.receive(timeout)
            if "error" in answer:
                raise ChannelError(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]


@contextlib.contextmanager
def connected(path: Path, timeout: float) -> Iterator[Channel]:
    """Connect for the length of the block. :param timeout: seconds to wait for a listener."""
    deadline = time.monotonic() + timeout
    with socket.socket(socket.AF_UNIX) as connection:
        while True:
            try:
                connection.connect(str(path))
                break
            except OSError as exc:
                if time.monotonic() > deadline:
                    raise ChannelError(f"{path}: {exc.strerror}") from exc
                time.sleep(0.1)
        yield Channel(connection)
