"""A log record is one line: no text from outside forges another one, or makes it long."""

import json
import logging
import sys

import pytest
from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_log import log
from oslo_log.formatters import ContextFormatter, JSONFormatter
from oslo_log.handlers import ColorHandler

from rtagent.telemetry.log_queue import MAX_LINE, MAX_TRACE, LineFormatter

FORGED = "x\n2030-01-01 00:00:00.000 1 ERROR rtagent [-] forged\x1b[2J\u202e"


@pytest.fixture
def context_formatter():
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    conf([])
    return ContextFormatter(config=conf)


def record(message: str, *arguments: object, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("library", logging.ERROR, "file.py", 1, message, arguments, None)
    vars(made).update(fields)
    return made


def formatted(formatter: logging.Formatter, made: logging.LogRecord) -> str:
    lines = LineFormatter(formatter)
    return lines.format(lines.bounded(made))


def failure() -> dict:
    try:
        raise ZeroDivisionError(FORGED)
    except ZeroDivisionError:
        return {"exc_info": sys.exc_info()}


def test_a_message_is_one_printable_line(context_formatter):
    line = formatted(context_formatter, record("no node %s", FORGED))
    assert line.isprintable()
    assert r"no node x\n2030-01-01" in line and r"\x1b[2J\u202e" in line


def test_ids_of_the_calls_context_are_escaped_and_short(context_formatter):
    context = RequestContext(user_id=FORGED, request_id=FORGED * 1000, overwrite=False)
    line = formatted(context_formatter, record("called", context=context))
    assert line.isprintable() and len(line) < 2000
    assert r"forged\x1b" in line and line.endswith("called")


@pytest.mark.parametrize("fields", [{}, {"stack_info": FORGED}])
def test_length_is_bounded(context_formatter, fields):
    line = formatted(context_formatter, record("unknown method %s", "m" * 100_000, **fields))
    assert len(line) < MAX_LINE and "(100015 characters)" in line


def test_a_traceback_has_lines_of_its_own_and_none_is_forged(context_formatter):
    first, *others = formatted(context_formatter, record("failed", **failure())).split("\n")
    assert first.endswith("failed: ZeroDivisionError: x") or "failed" in first
    assert any("Traceback" in line for line in others)
    assert all(line.isprintable() for line in [first, *others])
    assert not any(line.startswith("2030") for line in others)


def test_the_end_of_a_long_traceback_is_kept():
    fields = {"stack_info": "\n".join(f"line {number}" for number in range(10_000))}
    text = formatted(logging.Formatter(), record("failed", **fields))
    assert len(text) < MAX_TRACE + 100
    assert text.endswith("\n    line 9999") and "lines are left out)" in text.split("\n")[1]


def test_json_is_faithful_and_pure_ascii():
    context = RequestContext(user_id="ü\u202e", request_id="r" * 1000, overwrite=False)
    made = record("%s", FORGED + "\x9b", context=context, **failure())
    text = formatted(JSONFormatter(), made)
    assert text.isascii() and text.isprintable()
    document = json.loads(text)
    assert document["message"] == FORGED + "\x9b"
    assert document["context"]["user"] == "ü\u202e"
    assert document["context"]["request_id"].endswith("... (1000 characters)")
    assert "ZeroDivisionError" in "".join(document["traceback"])


def test_colours_of_the_format_are_kept_and_those_of_the_message_are_not(context_formatter):
    for name in ("logging_default_format_string", "logging_context_format_string"):
        context_formatter.conf.set_override(name, "%(color)s%(levelname)s\x1b[0m %(message)s")
    handler, lines = ColorHandler(), LineFormatter(context_formatter)
    handler.setFormatter(lines)
    assert handler.format(lines.bounded(record("\x1b[5mname"))) == (
        "\x1b[01;31mERROR\x1b[0m " + r"\x1b[5mname" + "\x1b[00m"
    )
