"""CallMonitor: keeps callers informed that their slow call is still being served.

A caller may ask for it by oslo.messaging's ``call_monitor_timeout``. oslo.messaging's dispatcher
starts a thread for each such call, before it knows the method, and leaves it running if there is no
such method. Here one thread serves all calls.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rtagent.ports import Clock, Reporter

#: The shortest and the longest call-monitor timeout, in seconds; any other is ignored.
TIMEOUTS = (2.0, 86_400.0)
#: Seconds between two checks of which calls are due.
INTERVAL = 0.5


class CallMonitor:
    """Sends keep-alive messages for all calls from one thread. Thread-safe."""

    def __init__(self, clock: Clock, reporter: Reporter) -> None:
        self._clock, self._reporter = clock, reporter.named(__name__)
        # By message: the interval of its keep-alive messages, and when the next is due.
        self._calls: dict[Any, tuple[float, float]] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watch(self, incoming: Any, timeout: object) -> Iterator[None]:
        """Send keep-alive messages to the caller of `incoming` during the block.

        :param timeout: seconds for which the caller waits for one; not a valid number: none.
        """
        interval = _interval(timeout)
        if interval is None:
            yield
            return
        with self._changed:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="rpc-monitor", daemon=True)
                thread.start()
                self._thread = thread  # only now: the next call tries again if it cannot be started
            self._calls[incoming] = interval, self._clock.monotonic() + interval
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._calls.pop(incoming, None)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._calls)
                now = self._clock.monotonic()
                due = [call for call, (_, at) in self._calls.items() if at <= now]
                for call in due:
                    interval, _ = self._calls[call]
                    self._calls[call] = interval, now + interval
            for call in due:
                self._send(call)
            with self._changed:
                self._changed.wait(INTERVAL)

    def _send(self, incoming: Any) -> None:
        try:
            incoming.heartbeat()
        except Exception as error:  # the caller has gone, or the broker: its call ends as usual
            sentence = f"a keep-alive message could not be sent to a caller: {type(error).__name__}"
            self._reporter.log("warning", sentence)
            with self._changed:
                self._calls.pop(incoming, None)


def _interval(timeout: object) -> float | None:
    """Return the seconds between two keep-alive messages; None: send none."""
    shortest, longest = TIMEOUTS
    if isinstance(timeout, int | float) and shortest <= timeout <= longest:
        return timeout / 2
    return None
