"""LogWriter: writes log records to one destination, in a thread of its own.

A destination may stop accepting: a pipe without a reader, a full disk, a journal that hangs. A
thread that logs must not wait for it, because that thread serves calls.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

#: Characters that may wait, with `OVERHEAD` for each record: 6,000 records of the usual length, 250
#: of the greatest.
CAPACITY = 8 * 2**20
OVERHEAD = 1_000

#: A flush waits for this many times its patience, as long as the destination accepts records.
ROUNDS = 6


class LogWriter:
    """A bounded queue of records and the thread that writes them, in their order. Thread-safe.

    When the queue is full, records are dropped until half of it was written. Then a record says how
    many were dropped, in their place.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[logging.LogRecord], object],
        capacity: int = CAPACITY,
    ) -> None:
        """:param name: of the destination. :param write: may block, in the thread of the writer."""
        self._name, self._write, self._capacity = name, write, capacity
        self._changed = threading.Condition()
        self._records: deque[logging.LogRecord] = deque()
        self._size = 0
        self._dropped = 0
        self._writing = self._stopping = self._ended = False
        self._written = 0
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def put(self, record: logging.LogRecord) -> bool:
        """Queue a record. Return at once: False if the record was dropped."""
        with self._changed:
            if not self._ended:
                size = self._size + _size(record)
                if size > (self._capacity // 2 if self._dropped else self._capacity):
                    self._dropped += 1
                    return False
                if self._dropped:
                    self._append(self._notice())
                self._append(record)
                self._changed.notify_all()
                return True
        self._write(record)  # the process ends, and this thread is its last
        return True

    def flush(self, patience: float) -> bool:
        """Wait until everything is written.

        :param patience: seconds without a written record after which it is given up; `ROUNDS` times
            as long at most.
        :returns: whether everything was written.
        """
        deadline = time.monotonic() + ROUNDS * patience
        with self._changed:
            while self._records or self._dropped or self._writing:
                left = min(patience, deadline - time.monotonic())
                if not self._changed.wait_for(partial(self._progress, self._written), left):
                    return False
        return True

    def _progress(self, written: int) -> bool:
        return self._written > written

    def close(self, patience: float) -> bool:
        """Write everything, and end the thread. Afterwards, `put` writes by itself.

        :returns: False if the destination accepts nothing: the thread is left blocked.
        """
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if not self.flush(patience):
            return False
        self._thread.join(patience)  # another thread may have added a record meanwhile
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (record := self._next()) is not None:
            with contextlib.suppress(Exception):  # the handler has printed it
                self._write(record)
            with self._changed:
                self._writing = False
                self._written += 1
                self._changed.notify_all()

    def _next(self) -> logging.LogRecord | None:
        """Wait for a record, and take it out of the queue. Return None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._records or self._dropped or self._stopping)
            if not self._records and self._dropped:
                self._append(self._notice())
            if not self._records:
                self._ended = True
                return None
            record = self._records.popleft()
            self._size -= _size(record)
            self._writing = True
            return record

    def _append(self, record: logging.LogRecord) -> None:
        self._records.append(record)
        self._size += _size(record)

    def _notice(self) -> logging.LogRecord:
        number, self._dropped = self._dropped, 0
        sentence = f"{number} log lines were dropped here: {self._name} did not accept them in time"
        return logging.makeLogRecord(
            {
                "name": __name__,
                "levelno": logging.WARNING,
                "levelname": "WARNING",
                "msg": sentence,
            }
        )


def _size(record: logging.LogRecord) -> int:
    line = getattr(record, "line", "")
    return OVERHEAD + (len(line) if isinstance(line, str) else 0)
