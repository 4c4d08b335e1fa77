"""python -m benchmarks [--quick] [--json FILE] [NAME...]"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks import (
    allocations,
    audits,
    claims_inprocess,
    claims_rpc,
    devices,
    hung_outside,
    numa,
    placement,
    starts,
)
from benchmarks.bench import Bench
from benchmarks.figure import Figure

#: The figures of each measurement.
MEASURES: dict[Callable[[Bench], Iterator[Figure]], tuple[str, ...]] = {
    claims_rpc.measure: ("claim_rpc_p50", "claim_rpc_16"),
    claims_rpc.pinned: ("claim_pinned_rpc_16",),
    devices.measure: ("claim_pci_p50",),
    claims_inprocess.measure: ("claim_inprocess_16",),
    claims_inprocess.mark_cost: ("claim_mark_cost",),
    claims_inprocess.digest_cost: ("claim_digest_cost",),
    audits.idle: ("audit_idle_1000_cpu", "audit_idle_1000_lock"),
    audits.contention: ("audit_contention_p99",),
    hung_outside.measure: ("hung_outside_p99",),
    starts.many: ("start_10000_claims",),
    starts.memory: ("rss_1000_claims",),
    numa.measure: ("numa_fit_p50", "numa_fit_worst", "numa_refusal"),
    placement.measure: ("placement_first_push", "placement_idle_requests"),
    allocations.cost: ("claim_allocations_cost",),
    allocations.drain: ("allocation_drain",),
}
NAMES = [name for names in MEASURES.values() for name in names]


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.list:
        print("\n".join(NAMES))
        return 0
    wanted = arguments.names or NAMES
    # oslo.messaging warns of any client with more than ten calls at once.
    logging.getLogger().addHandler(logging.NullHandler())
    console = Console(width=None if sys.stdout.isatty() else 110)
    figures = []
    with ExitStack() as stack:
        bench = Bench(stack, arguments.quick)
        for measure, names in MEASURES.items():
            if not set(names) & set(wanted):
                continue
            console.print(f"measuring {', '.join(names)} ...", style="italic", highlight=False)
            figures += [figure for figure in measure(bench) if figure.name in wanted]
    console.print(_table(figures))
    if arguments.json:
        document = {figure.name: figure.as_dict() for figure in figures}
        Path(arguments.json).write_text(json.dumps(document, indent=2) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools/bench", description="Measure the agent.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", metavar="FILE", help="also write the figures to this file")
    parser.add_argument("--list", action="store_true", help="print the names of the figures")
    parser.add_argument("names", nargs="*", type=_figure, metavar="NAME", help="measure only these")
    return parser


def _figure(name: str) -> str:
    if name not in NAMES:
        raise argparse.ArgumentTypeError(f"{name} is not a figure; see tools/bench --list")
    return name


def _table(figures: list[Figure]) -> Table:
    table = Table(title=f"{os.cpu_count()} CPUs, Python {platform.python_version()}")
    for column in ("figure", "value", "floor", "ratio", "target", "met"):
        table.add_column(column, justify="left" if column in ("figure", "target") else "right")
    for figure in figures:
        table.add_row(
            figure.name,
            f"{figure.value:.2f} {figure.unit}",
            "" if figure.floor is None else f"{figure.floor:.2f} {figure.unit}",
            "" if figure.ratio is None else f"{figure.ratio:.2f}",
            figure.wanted,
            "yes" if figure.met else "NO",
        )
    return table


if __name__ == "__main__":
    raise SystemExit(main())
