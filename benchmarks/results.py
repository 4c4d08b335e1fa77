"""Results: the figures of a run. Each is printed and written when it is measured."""

from __future__ import annotations

import json
import os
import platform
import traceback
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.figure import Figure


class Results:
    """:ivar figures: in the order of their measurement. :ivar failed: measurements that failed."""

    def __init__(self, console: Console, file: str | None, wanted: Collection[str]) -> None:
        """:param file: where the figures are written, too. :param wanted: names of figures."""
        self._console, self._wanted = console, wanted
        self._file = None if file is None else Path(file)
        self.figures: list[Figure] = []
        self.failed: list[str] = []

    def take(self, name: str, measure: Callable[[], Iterator[Figure]]) -> None:
        """Make a measurement. If it fails, its earlier figures stay, and the next can be made."""
        self._console.print(f"measuring {name} ...", style="italic", highlight=False)
        try:
            for figure in measure():
                if figure.name in self._wanted:
                    self._add(figure)
        except Exception:  # whatever it is, the other figures do not depend on it
            self.failed.append(name)
            self._console.print(traceback.format_exc(), markup=False, highlight=False)

    def conclude(self) -> None:
        """Print the table, and what has failed."""
        self._console.print(table(self.figures))
        for name in self.failed:
            self._console.print(f"failed: {name}", style="bold", highlight=False)

    def _add(self, figure: Figure) -> None:
        self.figures.append(figure)
        line = f"{figure.name}: {figure.value:.2f} {figure.unit}, wanted {figure.wanted}"
        self._console.print(line, markup=False, highlight=False)
        if self._file is not None:
            document = {each.name: each.as_dict() for each in self.figures}
            self._file.write_text(json.dumps(document, indent=2) + "\n")


def table(figures: Collection[Figure]) -> Table:
    """Return the figures as a table."""
    made = Table(title=f"{os.cpu_count()} CPUs, Python {platform.python_version()}")
    for column in ("figure", "value", "floor", "ratio", "target", "met"):
        made.add_column(column, justify="left" if column in ("figure", "target") else "right")
    for figure in figures:
        made.add_row(
            figure.name,
            f"{figure.value:.2f} {figure.unit}",
            "" if figure.floor is None else f"{figure.floor:.2f} {figure.unit}",
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            figure.wanted,
            "yes" if figure.met else "NO",
        )
    return made
