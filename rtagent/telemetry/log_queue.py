"""LogQueue: puts a bounded queue and a writer thread before every handler of the log."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from rtagent.telemetry.log_line import LineFormatter
from rtagent.telemetry.log_writer import CAPACITY, LogWriter

#: Seconds without progress after which lines that wait are given up at the end.
PATIENCE = 5.0

#: Called with ``"log_dropped"``, the name of a destination and the number of dropped lines; 0: the
#: destination is new.
Counted = Callable[[str, str, int], None]


class LogQueue:
    """The handlers of all loggers, ours and those of libraries, each behind a queue of its own.

    So logging never blocks, and a destination that accepts nothing does not hinder the others.
    """

    def __init__(self, counted: Counted, capacity: int = CAPACITY) -> None:
        self._counted, self._capacity = counted, capacity
        self._handlers: list[QueuedHandler] = []

    def adopt(self) -> None:
        """Queue what every present handler writes.

        To be called again when the log was configured anew.
        """
        logging.captureWarnings(True)  # or they would be printed by the thread that causes them
        threading.excepthook = _log_end_of_thread
        used: dict[logging.Handler, QueuedHandler] = {}
        for logger in _loggers():
            logger.handlers = [self._queued(handler, used) for handler in logger.handlers]
        self._handlers = list(used.values())

    def _queued(
        self, handler: logging.Handler, used: dict[logging.Handler, QueuedHandler]
    ) -> logging.Handler:
        """Return the queue of a handler, which several loggers may have."""
        if isinstance(handler, logging.NullHandler):
            return handler
        if isinstance(handler, QueuedHandler):
            used[handler] = handler
        elif handler not in used:
            used[handler] = QueuedHandler(handler, self._counted, self._capacity)
        return used[handler]

    def close(self, patience: float = PATIENCE) -> bool:
        """Write everything that waits. Afterwards, logging blocks as usual.

        :returns: False if a destination accepts nothing: the process must end without waiting for
            threads and files, as with `os._exit`.
        """
        ended = [handler.end(patience) for handler in self._handlers]
        return all(ended)


class NoLock:
    """A lock that locks nothing, of a handler that one thread uses."""

    def acquire(self) -> None:
        """Do nothing."""

    def release(self) -> None:
        """Do nothing."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(self, *_: object) -> None:
        """Do nothing."""


class QueuedHandler(logging.Handler):
    """Formats a record for another handler, and queues it. Never blocks."""

    def __init__(self, target: logging.Handler, counted: Counted, capacity: int) -> None:
        super().__init__(target.level)
        self._target, self._counted, self._destination = target, counted, _destination(target)
        counted("log_dropped", self._destination, 0)
        self._lines = LineFormatter(target.formatter or logging.Formatter())
        target.setFormatter(self._lines)
        # Only the writer uses the target. logging.shutdown() would wait for its lock without limit.
        target.lock = NoLock()  # type: ignore[assignment]
        self._writer = LogWriter(self._destination, target.handle, capacity)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            prepared = self._lines.bounded(record)
            self._target.format(prepared)
            prepared.exc_info = None  # it refers to every frame of the stack
            if not self._writer.put(prepared):
                self._counted("log_dropped", self._destination, 1)
        except Exception:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Count a record that cannot be formatted. `logging` would print it, and might block."""
        self._counted("log_dropped", self._destination, 1)

    def end(self, patience: float) -> bool:
        """Write everything that waits, and end the thread. :returns: whether it was written."""
        return self._writer.close(patience)

    def flush(self) -> None:
        """Write everything that waits, unless the destination accepts nothing."""
        self._writer.flush(PATIENCE)

    def close(self) -> None:
        """End the thread: `logging` closes a handler when another configuration replaces it."""
        self._writer.close(PATIENCE)
        super().close()


def _loggers() -> list[logging.Logger]:
    root = logging.getLogger()
    known = root.manager.loggerDict.values()
    return [root, *(each for each in known if isinstance(each, logging.Logger))]


def _destination(handler: logging.Handler) -> str:
    """Return the name of a handler's file or stream, or of its kind."""
    if isinstance(handler, logging.FileHandler):
        return handler.baseFilename
    stream = getattr(handler, "stream", None)
    return str(getattr(stream, "name", type(handler).__name__)).strip("<>")


def _log_end_of_thread(ended: threading.ExceptHookArgs) -> None:
    if ended.exc_value is not None and ended.exc_type is not SystemExit:
        name = ended.thread.name if ended.thread is not None else "?"
        information = (ended.exc_type, ended.exc_value, ended.exc_traceback)
        logging.getLogger("rtagent").error("thread %s ended", name, exc_info=information)
