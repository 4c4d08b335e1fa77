"""Turns of a loop that a test controls."""

import threading

from rtagent.service.loop import Rest

#: Seconds; nothing in these tests takes that long.
PATIENCE = 120.0


class Turns:
    """Turns that a test lets end one by one.

    :ivar began: released when a turn begins. :ivar may_end: a turn waits for it.
    :ivar rest: what the turns return. :ivar error: what they raise instead, if anything.
    """

    def __init__(self) -> None:
        self.number = 0
        self.began, self.may_end = threading.Semaphore(0), threading.Semaphore(0)
        self.rest = Rest()
        self.error: Exception | None = None

    def __call__(self) -> Rest:
        self.number += 1
        self.began.release()
        assert self.may_end.acquire(timeout=PATIENCE)
        if self.error is not None:
            raise self.error
        return self.rest
