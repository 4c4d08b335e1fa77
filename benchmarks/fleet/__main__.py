"""python -m benchmarks.fleet [--hosts N] [--minutes M] [--report-interval S] [--at-once N]
[--json FILE] [--page FILE] [PHASE...]

python -m benchmarks.fleet --compare FILE... [--page FILE]: of runs with `--json`.
"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from pathlib import Path
from typing import NoReturn

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.fleet.growth import growth
from benchmarks.fleet.host import Intervals
from benchmarks.fleet.measured import Comparison, Measurements, Phase
from benchmarks.fleet.page import page
from benchmarks.fleet.progress import Progress
from benchmarks.fleet.run import PHASES, Options, Run, grow

#: Fleets of several sizes; the phases of one fleet come before.
GROWTH = "growth"
ALL = (*PHASES, GROWTH)
#: The longest idle phase. Every interval of an idle agent but one passes in it.
IDLE_MINUTES = 5.0


def main() -> int:
    arguments = _parser().parse_args()
    logging.getLogger().addHandler(logging.NullHandler())
    signal.signal(signal.SIGTERM, _terminate)
    console = Console(width=None if sys.stdout.isatty() else 110)
    if arguments.compare:
        return _compare(arguments, console)
    options = Options(
        hosts=arguments.hosts,
        at_once=min(arguments.at_once or arguments.hosts, arguments.hosts),
        alone=60,
        idle=60 * min(arguments.minutes, IDLE_MINUTES),
        day=60 * arguments.minutes,
        outage=60 * min(arguments.minutes, 1),
        phases=arguments.phases or PHASES,
        intervals=Intervals(report=arguments.report_interval),
    )
    with Progress(console) as progress:
        run = Run(options, progress, lambda: _write(run.measured, run.wrong, arguments))
        try:
            if arguments.phases != [GROWTH]:
                run.make()
            if not arguments.phases or GROWTH in arguments.phases:
                phase, wrong = grow(options, progress)
                run.measured.phases.append(phase)
                run.wrong += wrong
        finally:
            _write(run.measured, run.wrong, arguments)
    _print(run.measured, console)
    for sentence in run.wrong:
        console.print(sentence, style="bold", highlight=False, markup=False)
    return 1 if run.wrong else 0


def _compare(arguments: argparse.Namespace, console: Console) -> int:
    """Compare runs that have been made, and make none."""
    files = [Path(name).read_bytes() for name in arguments.compare]
    runs = [msgspec.json.decode(file, type=Measurements) for file in files]
    runs.sort(key=lambda run: run.hosts)
    largest = runs[-1]
    largest.phases.append(growth(runs))
    _write(largest, [], arguments)
    _print(largest, console)
    return 0


def _print(measured: Measurements, console: Console) -> None:
    for phase in measured.phases:
        if phase.values:
            console.print(_table(phase))
        if phase.comparison is not None:
            console.print(_comparison(phase, phase.comparison))


def _write(measured: Measurements, wrong: list[str], arguments: argparse.Namespace) -> None:
    """Write what was measured so far."""
    if arguments.json is not None:
        document = msgspec.json.format(msgspec.json.encode(measured), indent=2)
        Path(arguments.json).write_bytes(document + b"\n")
    if arguments.page is not None:
        Path(arguments.page).write_text(page(measured, wrong))


def _table(phase: Phase) -> Table:
    made = Table(title=f"{phase.name}: {phase.what}", title_justify="left")
    for column in ("value", "", "at most", "met"):
        made.add_column(column, justify="left" if column == "value" else "right")
    for each in phase.values:
        target = "" if each.target is None else f"{each.target:g}"
        met = {None: "", True: "yes", False: "NO"}[each.met]
        made.add_row(each.name, f"{each.value:.2f} {each.unit}", target, met)
    return made


def _comparison(phase: Phase, comparison: Comparison) -> Table:
    made = Table(title=f"{phase.name}: {phase.what}", title_justify="left")
    for column in comparison.columns:
        made.add_column(column, justify="right" if column.endswith(" hosts") else "left")
    for row in comparison.rows:
        made.add_row(*row)
    return made


def _terminate(*_: object) -> NoReturn:
    """End as after Ctrl-C: processes are ended, and directories are removed."""
    raise SystemExit(128 + signal.SIGTERM)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/fleet", description="Measure a fleet of agents.")
    parser.add_argument("--hosts", type=_positive, default=1000, help="simulated hosts (1000)")
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="of the day; others are shorter (10)"
    )
    parser.add_argument(
        "--report-interval",
        type=_positive,
        default=10,
        metavar="S",
        help="of agents, in seconds (10)",
    )
    parser.add_argument(
        "--at-once",
        type=_positive,
        metavar="N",
        help="agents that start at the same moment (all)",
    )
    parser.add_argument("--json", metavar="FILE", help="also write what is measured to this file")
    parser.add_argument("--page", metavar="FILE", help="also write a page with curves to this file")
    parser.add_argument(
        "--compare", metavar="FILE", nargs="+", help="compare runs that --json wrote, and make none"
    )
    parser.add_argument(
        "phases", nargs="*", type=_phase, metavar="PHASE", help=f"only these of {', '.join(ALL)}"
    )
    return parser


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _phase(name: str) -> str:
    if name not in ALL:
        raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(ALL)}")
    return name


if __name__ == "__main__":
    sys.exit(main())
