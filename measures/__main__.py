"""python -m measures [--json FILE] [--tree DIR] [--route] [--words]"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from measures import language, tree
from measures.journeys import PACKAGE, STARTS, Journey, journey
from measures.measure import Measure
from measures.program import Program


def main() -> int:
    arguments = _parser().parse_args()
    root = Path(arguments.tree).resolve()
    console = Console(width=None if sys.stdout.isatty() else 110, highlight=False)
    program = Program(root, PACKAGE)
    trips, failed = [], False
    for start in STARTS:
        try:
            trips.append(journey(program, start))
        except LookupError as error:
            failed = True
            console.print(f"not measured: {error.args[0]}", markup=False)
    if arguments.route:
        for trip in trips:
            console.print(_route(trip), soft_wrap=True)
    if arguments.words:
        for word, number in language.old_words(root).most_common():
            console.print(f"{number:6} {word}", markup=False)
    found = [measure for trip in trips for measure in trip.measures()]
    found += [*tree.measures(root), *language.measures(root)]
    console.print(_table(found))
    if arguments.json:
        figures = {measure.name: measure.as_dict() for measure in found}
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n")
    return int(failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tools/measures", description="How easy the source is to follow."
    )
    parser.add_argument("--json", metavar="FILE", help="write the figures there as well")
    parser.add_argument("--tree", metavar="DIR", default=".", help="measure this source tree")
    parser.add_argument("--route", action="store_true", help="print every stay of each journey")
    parser.add_argument("--words", action="store_true", help="count each old word")
    return parser


def _route(trip: Journey) -> str:
    lines = [f"{trip.start.name}:"]
    for number, (room, calls) in enumerate(trip.stretches, 1):
        names = ", ".join(call.removeprefix(f"{room}.") for call in calls)
        lines.append(f"{number:4}  {room}: {names}")
    return "\n".join(lines) + "\n"


def _table(measures: Sequence[Measure]) -> Table:
    table = Table()
    for column in ("measure", "value", "target", "met"):
        table.add_column(column, justify="right" if column == "value" else "left")
    for measure in measures:
        met = {None: "", True: "yes", False: "NO"}[measure.met]
        table.add_row(measure.name, f"{measure.value:g}", measure.wanted, met)
    return table


if __name__ == "__main__":
    raise SystemExit(main())
