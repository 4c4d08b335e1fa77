"""LineFormatter: a log record as one printable line of bounded length, and its traceback.

Messages quote text from outside: ours quote names and reasons, those of libraries whole requests.
Without escapes and limits, a line feed in a name forges a line of the log, and a long name fills
the disk.
"""

import logging
import re
import threading
from collections.abc import Iterator, Sequence
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
        return self._short(value, limit)

    def _short(self, text: str, limit: int) -> str:
        if not self._escapes:
            return printable(text, limit)
        return text if len(text) <= limit else f"{text[:limit]}... ({len(text)} characters)"

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
