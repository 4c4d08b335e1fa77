"""Formats of output that cliff does not bring."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from typing import Any, TextIO

from cliff.formatters.base import SingleFormatter
from cliff.formatters.commaseparated import CSVLister
from stevedore.extension import Extension


class CsvOne(CSVLister, SingleFormatter):
    """One thing as a list of one, which is what reads CSV."""

    def emit_one(
        self,
        column_names: Sequence[str],
        data: Sequence[Any],
        stdout: TextIO,
        parsed_args: argparse.Namespace,
    ) -> None:
        self.emit_list(column_names, [data], stdout, parsed_args)


def csv_one() -> Extension[SingleFormatter]:
    """``-f csv`` for one thing."""
    named = EntryPoint("csv", f"{__name__}:{CsvOne.__name__}", "cliff.formatter.show")
    return Extension("csv", named, CsvOne, CsvOne())
