"""LogQueue: puts a bounded queue and a writer thread before every handler of the log.
LineFormatter: a log record as one printable line of bounded length, and its traceback.

Messages quote text from outside: ours quote names and reasons, those of libraries whole requests.
Without escapes and limits, a line feed in a name forges a line of the log, and a long name fills
the disk.
"""

from __future__ import annotations

import contextlib
import logging
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from oslo_context.context import RequestContext, get_current
from oslo_log.formatters import ContextFormatter, FluentFormatter, JSONFormatter

from rtagent.model.printable import printable

#: Characters of a message, of another field of a record, and of a line with all its fields.
MAX_MESSAGE = 8_000
MAX_FIELD = 300
MAX_LINE = 12_000
#: Characters of a line of a traceback, and of all its lines; the last ones are kept.
MAX_TRACE_LINE = 1_000
MAX_TRACE = 16_000

#: The colours of ``[DEFAULT] log_color``. The fields that a format contains have none any more.
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
#: Formatters whose result escapes by itself, and has a field for the traceback.
_STRUCTURED = (JSONFormatter, FluentFormatter)
_INDENT = "    "
#: Fields of several lines, which are escaped line by line.
_SEVERAL = frozenset({"exc_text", "stack_info"})

#: What `logging` calls ``exc_info``.
_Error = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None] | None
)


class LineFormatter(logging.Formatter):
    """Formats with another formatter. A record is formatted once; later the result is repeated.

    So the thread that logs can format the record, and another thread can write it.
    """

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self._formatter = formatter
        self._lock = threading.Lock()  # oslo.log's formatters have state
        self._escapes = isinstance(formatter, _STRUCTURED)

    def bounded(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return a copy whose message and fields are short and, unless the formatter escapes them,
        printable. The ids of the call's context, which its caller chooses, are among the fields.
        """
        made = logging.LogRecord.__new__(logging.LogRecord)  # copy.copy() takes as long as the rest
        vars(made).update(vars(record), msg=_message(record), args=())
        context = record.__dict__.get("context") or get_current()
        if isinstance(context, RequestContext):
            context = context.get_logging_values()
        if isinstance(context, dict):
            made.context = {name: self._field(value) for name, value in context.items()}
        fields = vars(made)
        for name in fields.keys() - _SEVERAL:
            fields[name] = self._field(fields[name], MAX_MESSAGE if name == "msg" else MAX_FIELD)
        return made

    def format(self, record: logging.LogRecord) -> Any:
        """Return the line of a record of `bounded`, and a line for each line of the traceback."""
        fields = vars(record)
        if "line" not in fields:
            with self._lock:
                line = self._formatter.format(record) if self._escapes else self._lines(record)
            fields["line"] = line
        return fields["line"]

    def _field(self, value: object, limit: int = MAX_FIELD) -> object:
        if not isinstance(value, str) or (len(value) <= limit and value.isprintable()):
            return value
        if not self._escapes:
            return printable(value, limit)
        return value if len(value) <= limit else f"{value[:limit]}... ({len(value)} characters)"

    def _lines(self, record: logging.LogRecord) -> str:
        error, stack = record.exc_info, record.stack_info
        record.exc_info = record.exc_text = record.stack_info = None
        line = _line(self._formatter.format(record), coloured="color" in record.__dict__)
        traced = [*self._trace(record, error), *(_indented(stack) if stack else ())]
        record.exc_text = "\n".join(_last(traced)) or None
        return f"{line}\n{record.exc_text}" if record.exc_text else line

    def _trace(self, record: logging.LogRecord, error: _Error) -> Iterator[str]:
        """Yield the traceback. No line can be taken for a line of the log: a line feed in the
        error's message is followed by the prefix of `ContextFormatter`, or is indented.
        """
        made = self._formatter
        if not error:
            return
        if isinstance(made, ContextFormatter) and made.conf.logging_exception_prefix.strip():
            text = made.formatException(error, record=record)
            yield from (printable(line, MAX_TRACE_LINE) for line in text.split("\n"))
        else:
            yield from _indented(made.formatException(error))


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception as error:  # of any argument's conversion; the line must not get lost
        return f"cannot format {record.msg!r} with {record.args!r}: {error!r}"


def _line(text: object, coloured: bool) -> str:
    """Return what a formatter made as one line. It may have added a summary of the error."""
    line = str(text)
    if not coloured:
        return printable(line, MAX_LINE)
    parts = _COLOUR.split(line)
    return "".join(
        part if number % 2 else printable(part, MAX_LINE) for number, part in enumerate(parts)
    )


def _indented(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        yield _INDENT + printable(line, MAX_TRACE_LINE)


def _last(lines: Sequence[str]) -> list[str]:
    """Return the lines at the end that have `MAX_TRACE` characters together at most."""
    kept: list[str] = []
    size = 0
    for line in reversed(lines):
        size += len(line) + 1
        if size > MAX_TRACE:
            kept.append(f"{_INDENT}({len(lines) - len(kept)} lines are left out)")
            break
        kept.append(line)
    return kept[::-1]


#: Characters that may wait, with `OVERHEAD` for each record: 6,000 records of the usual length, 250
#: of the greatest.
CAPACITY = 8 * 2**20
OVERHEAD = 1_000

#: A flush waits for this many times its patience, as long as the destination accepts records.
ROUNDS = 6


class LogWriter:
    """A bounded queue of records and the thread that writes them, in their order. Thread-safe.

    A destination may stop accepting: a pipe without a reader, a full disk, a journal that hangs. A
    thread that logs must not wait for it, because that thread serves calls.

    When the queue is full, records are dropped until half of it was written. Then a record says how
    many were dropped, in their place.
    """

    def __init__(
        self, name: str, write: Callable[[logging.LogRecord], object], capacity: int = CAPACITY
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
            {"name": __name__, "levelno": logging.WARNING, "levelname": "WARNING", "msg": sentence}
        )


def _size(record: logging.LogRecord) -> int:
    line = getattr(record, "line", "")
    return OVERHEAD + (len(line) if isinstance(line, str) else 0)


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
