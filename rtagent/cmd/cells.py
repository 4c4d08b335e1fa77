"""Cells: values as each output format may show them, whatever text from outside they contain.

JSON and YAML are for programs: they are pure ASCII and contain the values unchanged. All other
formats may reach a terminal, a spreadsheet or a shell, where some characters have effects.
"""

import argparse
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TextIO, TypeVar

from cliff.columns import FormattableColumn
from cliff.formatters.base import ListFormatter, SingleFormatter

from rtagent.model.printable import printable, printable_lines

#: Formats that escape by themselves.
FAITHFUL = frozenset({"json", "yaml"})
#: Formats that show `FormattableColumn.human_readable`.
READABLE = frozenset({"table", "text"})

#: Beginnings of a cell that a spreadsheet takes for a formula, the full-width ones included.
_FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
#: Characters with an effect between double quotes in a shell; cliff escapes the quote itself.
_SHELL = re.compile(r"([\\$`])")

#: What has another form for a reader than Python's.
_IN_LINE = (bool, Mapping, list, tuple)

_T = TypeVar("_T")


class Column(FormattableColumn[_T], Generic[_T]):
    """A value that a table shows as lines, each of which is escaped."""

    @abstractmethod
    def lines(self) -> Iterable[str]:
        """Return the lines for a reader."""

    def human_readable(self) -> str:
        return "\n".join(map(printable, self.lines()))

    def __lt__(self, other: object) -> bool:
        """Order a list with ``--sort-column``: None is last, as cliff has it for plain values, and
        documents have the order of their lines. cliff leaves rows that it cannot compare unsorted.
        """
        if not isinstance(other, Column):
            return NotImplemented
        if self._value is None or other._value is None:
            return self._value is not None
        try:
            return bool(self._value < other._value)
        except TypeError:
            return list(self.lines()) < list(other.lines())


class SafeFormatter(ListFormatter, SingleFormatter):
    """A formatter that receives safe cells only."""

    def __init__(self, name: str, formatter: ListFormatter | SingleFormatter) -> None:
        """:param name: of the format."""
        self._name, self._formatter = name, formatter

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """Add nothing: there are no options."""

    def emit_list(
        self,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Print rows."""
        assert isinstance(self._formatter, ListFormatter)
        rows = [self._row(row) for row in data]
        self._formatter.emit_list(self._row(column_names), rows, stdout, parsed_args)

    def emit_one(
        self,
        column_names: Sequence[str],
        data: Sequence[Any],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        """Print one item."""
        assert isinstance(self._formatter, SingleFormatter)
        self._formatter.emit_one(self._row(column_names), self._row(data), stdout, parsed_args)

    def _row(self, row: Iterable[Any]) -> list[Any]:
        return [safe(value, self._name) for value in row]


def safe(value: Any, format_: str) -> Any:
    """Return a cell that the format may show. Numbers stay as they are, and so does None, which is
    empty for a reader and in CSV.

    For a reader, a truth value, a list or a document has the form of `in_line`. Other formats get
    the text that Python has for it, which may contain any character that a shell interprets.
    """
    if format_ in FAITHFUL:
        return value
    if format_ in READABLE and (value is None or isinstance(value, _IN_LINE)):
        value = "" if value is None else in_line(value)
    if isinstance(value, FormattableColumn):
        if format_ in READABLE:
            return value if isinstance(value, Column) else printable_lines(value.human_readable())
        machine = value.machine_readable()
        value = None if machine is None else str(machine)
    if value is None or isinstance(value, int | float):
        return value
    value = str(value)
    if format_ == "text":
        return printable_lines(value)
    text = printable(value)
    if format_ == "csv":
        return f"'{text}" if text.lstrip().startswith(_FORMULA) else text
    return _SHELL.sub(r"\\\1", text) if format_ == "shell" else text


def in_line(value: Any) -> str:
    """Return a value as a reader sees it in one line: ``name:value,...`` for a document."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, Mapping):
        return ",".join(f"{name}:{in_line(part)}" for name, part in value.items())
    if isinstance(value, str | int | float):
        return str(value)
    between = "|" if any(isinstance(item, Mapping) for item in value) else ","
    return between.join(map(in_line, value))


def plain_xml(document: str) -> str:
    """Return an XML document with a character reference for each character that `safe` escapes,
    so that its meaning stays.
    """
    return "".join(
        char if char.isprintable() or char in "\n\t" else f"&#{ord(char)};" for char in document
    )
