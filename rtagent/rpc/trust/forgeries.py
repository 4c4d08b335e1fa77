"""Forgeries: bounds how many wrong signatures of one sender are verified."""

from __future__ import annotations

import threading
from collections import OrderedDict

from rtagent.errors import TooManyRequests

#: The number of refused signatures of a sender, in `PERIOD`, after which none is verified.
LIMIT = 20
#: Seconds.
PERIOD = 60.0
#: The number of senders that are remembered. The one whose last refusal is the oldest is forgotten.
MAX_SENDERS = 1000
#: The reason of such a refusal, which is also a label of a metric.
FORGED = "forged"

#: The name of a key as a call claims it, and the queue of the reply.
Sender = tuple[str, str]


class Forgeries:
    """Thread-safe. Counts refused signatures by the key that they name and the reply queue.

    A process has a reply queue of its own, so other callers with the same key are not refused.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: OrderedDict[Sender, tuple[float, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._refused)

    def check(self, sender: Sender, method: str, now: float) -> None:
        """Refuse a sender with too many wrong signatures, before the next one is verified.

        :param now: on the monotonic clock, in seconds. :raises TooManyRequests:
        """
        with self._lock:
            began, count = self._refused.get(sender, (now, 0))
        if count >= LIMIT and now - began < PERIOD:
            raise TooManyRequests(
                f"{LIMIT} signatures of the key {sender[0]} with this reply queue were refused"
                f" within {PERIOD:g} s: find the cause in the log rtagent.access of the server, and"
                " repeat the call in a minute",
                method=method,
                limit=LIMIT,
                reason=FORGED,
            )

    def count(self, sender: Sender, now: float) -> None:
        """Count a refused signature."""
        with self._lock:
            began, count = self._refused.pop(sender, (now, 0))
            if now - began >= PERIOD:
                began, count = now, 0
            if len(self._refused) >= MAX_SENDERS:
                self._refused.popitem(last=False)
            self._refused[sender] = began, count + 1
