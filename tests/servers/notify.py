"""The receiver of sd_notify messages, in place of systemd."""

import os
import socket
import threading
import time
from collections.abc import Callable
from uuid import uuid4


class NotifySocket:
    """Keeps every line that is sent to it. :ivar address: the value for NOTIFY_SOCKET."""

    def __init__(self) -> None:
        self.address = f"@rtagent-test-{os.getpid()}-{uuid4()}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + self.address[1:])
        self._lines: list[str] = []
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    @property
    def lines(self) -> list[str]:
        with self._changed:
            return list(self._lines)

    def wait(
        self, wanted: Callable[[str], bool], timeout: float, alive: Callable[[], bool]
    ) -> str | None:
        """Wait for a wanted line after those that earlier calls returned, and return it.

        :param alive: whether the sender still runs.
        :returns: None if there was none within `timeout` seconds, or if the sender has ended.
        """
        deadline = time.monotonic() + timeout
        while True:
            ended = not alive()
            with self._changed:
                for position, line in enumerate(self._lines):
                    if wanted(line):
                        del self._lines[: position + 1]
                        return line
                if ended or time.monotonic() > deadline:
                    return None
                self._changed.wait(0.05)

    def clear(self) -> None:
        """Drop the lines received so far."""
        with self._changed:
            self._lines.clear()

    def close(self) -> None:
        """Receive no more. Idempotent."""
        if not self._thread.is_alive():
            return
        self._socket.shutdown(socket.SHUT_RDWR)  # ends the thread's wait; close() does not
        self._thread.join()
        self._socket.close()

    def _receive(self) -> None:
        while text := self._socket.recv(65536):
            with self._changed:
                self._lines += text.decode().splitlines()
                self._changed.notify_all()
