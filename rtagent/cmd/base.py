"""Base classes of the commands, by what they print. Those that print have ``-f`` and ``-c``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import EntryPoint
from typing import Any, ClassVar, TextIO

from cliff.columns import FormattableColumn
from cliff.formatters.base import SingleFormatter
from cliff.formatters.commaseparated import CSVLister
from cliff.lister import Lister
from cliff.show import ShowOne
from stevedore import ExtensionManager
from stevedore.extension import Extension

from rtagent.cmd.output import SafeFormatter
from rtagent.cmd.rtagent import Shell, Strict
from rtagent.errors import InvalidRequest

#: The columns and the values of one item.
Row = tuple[Sequence[str], Sequence[Any]]
#: The columns and the rows of a list.
Rows = tuple[Sequence[str], Iterable[Sequence[Any]]]
#: What is shown of a value.
Cell = Callable[[Any], Any]
#: What the name of a key or of a token is.
NAME_RULE = "must have 1 to 64 letters, digits, dots, underscores and dashes"
#: What each column shows of an item: a document of the API, or a record.
Cells = Mapping[str, Cell]


def columns(*fields: str, default: Cell = lambda value: value, **kinds: Cell) -> Cells:
    """Return the columns that show fields of an item, which is a document or a record.

    :param fields: names; ``name=path.to.field`` if the column has another name than the field. A
        field that is absent, or a part of what is absent, is None.
    :param default: makes the cell of a field's value. :param kinds: the same, by column.
    """
    named = ((name, path or name) for name, _, path in (text.partition("=") for text in fields))
    return {name: _cell(path.split("."), kinds.get(name, default)) for name, path in named}


def _cell(path: Sequence[str], kind: Cell) -> Cell:
    def cell(item: Any) -> Any:
        for step in path:
            if item is not None:
                item = item.get(step) if isinstance(item, Mapping) else getattr(item, step)
        return kind(item)

    return cell


def row(cells: Cells, item: Any) -> Row:
    """Return the columns and the cells of an item."""
    return tuple(cells), tuple(cell(item) for cell in cells.values())


def rows(cells: Cells, items: Iterable[Any]) -> Rows:
    """Return the columns and the cells of each item."""
    return tuple(cells), [row(cells, item)[1] for item in items]


class Action(Strict):
    """A command that prints nothing. It may log a message to standard error."""

    app: Shell


class Show(Strict, ShowOne):
    """A command that prints one item, in all formats of lists and as shell variables."""

    app: Shell

    def _load_formatter_plugins(self) -> ExtensionManager[SingleFormatter]:
        formats = super()._load_formatter_plugins()
        formats.extensions.append(_formatter("csv", CsvItem))
        return formats

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]
    ) -> int:
        _check_columns(parsed_args, column_names)
        self.formatter = SafeFormatter(parsed_args.formatter, self.formatter)
        return super().produce_output(parsed_args, column_names, data)


class Text(Show):
    """A command whose result is a text: a sentence, a document.

    The format ``text``, which is the default, prints the last column and nothing else. The other
    formats print all columns, with names.
    """

    @property
    def formatter_default(self) -> str:
        return "text"

    def _load_formatter_plugins(self) -> ExtensionManager[SingleFormatter]:
        formats = super()._load_formatter_plugins()
        formats.extensions.append(_formatter("text", PlainText))
        return formats

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]
    ) -> int:
        if parsed_args.formatter == "text" and not parsed_args.columns:
            column_names, data = column_names[-1:], data[-1:]
        return super().produce_output(parsed_args, column_names, data)


class List(Strict, Lister):
    """A command that prints a list, or logs that it is empty.

    :cvar nouns: what is listed, in the plural.
    """

    app: Shell
    nouns: ClassVar[str]

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
    ) -> int:
        _check_columns(parsed_args, column_names)
        items = list(data)
        if not items:
            self.app.LOG.info("no %s", self.nouns)
            if parsed_args.formatter == "table":
                return 0
        self.formatter = SafeFormatter(parsed_args.formatter, self.formatter)
        return super().produce_output(parsed_args, column_names, items)


class CsvItem(CSVLister, SingleFormatter):
    """``-f csv`` for one item, which cliff does not have: a list of one row."""

    def emit_one(self, column_names: Sequence[str], data: Sequence[Any], *others: Any) -> None:
        self.emit_list(column_names, [data], *others)


class PlainText(SingleFormatter):
    """``-f text``: the values without their names."""

    def add_argument_group(self, parser: argparse.ArgumentParser) -> None:
        """It has no options."""

    def emit_one(
        self,
        column_names: Sequence[str],
        data: Sequence[Any],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        for value in data:
            text = value.human_readable() if isinstance(value, FormattableColumn) else str(value)
            stdout.write(text if text.endswith("\n") else f"{text}\n")


def checked(valid: Callable[[str], bool], rule: str) -> Callable[[str], str]:
    """Return the type of an argument that is a text. :param rule: what a valid text is."""

    def parse(text: str) -> str:
        if not valid(text):
            raise argparse.ArgumentTypeError(f"{text!r} {rule}")
        return text

    return parse


def with_dry_run(parser: argparse.ArgumentParser, verb: str) -> None:
    """Add ``--dry-run`` to a command that cannot be undone. :param verb: what it does."""
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help=f"Check, and show what the command would {verb}; change nothing.",
    )


def _check_columns(parsed_args: argparse.Namespace, names: Sequence[str]) -> None:
    """Check ``--column``. cliff ignores unknown names, unless there are no others.

    :raises InvalidRequest: there is no such column.
    """
    there = {name.lower() for name in names}
    for name in parsed_args.columns:
        if name.lower().replace(" ", "_") not in there:
            rule = f"there is no column {name!r}; there are: {', '.join(names)}"
            raise InvalidRequest.at("this command", "--column", rule)


def _formatter(name: str, class_: type[SingleFormatter]) -> Extension[SingleFormatter]:
    point = EntryPoint(name, f"{__name__}:{class_.__name__}", "cliff.formatter.show")
    return Extension(name, point, class_, class_())
