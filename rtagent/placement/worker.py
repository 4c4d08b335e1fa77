"""Worker: a thread that waits on a condition between its turns."""

from __future__ import annotations

import threading
from collections.abc import Callable

#: Seconds for which `stop` waits for a request in flight.
STOP_TIMEOUT = 5.0


class Worker:
    """:ivar stopping: whether the thread is to end. Read it with the condition held."""

    def __init__(self, name: str, run: Callable[[], None], condition: threading.Condition) -> None:
        """:param run: the whole work of the thread; it returns soon after `stopping` is set.
        :param condition: on which it waits.
        """
        self.stopping = False
        self._condition = condition
        self._thread = threading.Thread(target=run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Have the thread end, and return whether it did within `timeout` seconds."""
        with self._condition:
            self.stopping = True
            self._condition.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)
        return not self._thread.is_alive()
