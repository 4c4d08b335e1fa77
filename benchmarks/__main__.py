"""python -m benchmarks [--quick] [--json FILE] [NAME...]"""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import NoReturn

from rich.console import Console

from benchmarks import (
    advice,
    allocations,
    audits,
    builds_together,
    busy,
    capacity,
    claims_inprocess,
    claims_rpc,
    devices,
    events,
    fleet_capacity,
    hung_outside,
    numa,
    pages,
    placement,
    reports,
    scaling,
    scheduler,
    schedulers,
    signed_calls,
    starts,
)
from benchmarks.bench import Bench
from benchmarks.figure import Figure
from benchmarks.results import Results

#: The figures of each measurement.
MEASURES: dict[Callable[[Bench], Iterator[Figure]], tuple[str, ...]] = {
    claims_rpc.measure: ("claim_rpc_p50", "claim_rpc_16"),
    claims_rpc.pinned: ("claim_pinned_rpc_16",),
    claims_rpc.together: ("claims_32_rpc",),
    signed_calls.measure: ("claim_signed_rpc_p50", "claim_signed_rpc_16"),
    devices.measure: ("claim_pci_p50",),
    claims_inprocess.measure: (
        "claim_inprocess_1",
        "claim_inprocess_16",
        "claim_inprocess_shared",
    ),
    scaling.by_claims: ("claim_scaling_claims",),
    scaling.by_cpus: ("claim_scaling_cpus",),
    scaling.by_devices: ("claim_scaling_devices",),
    claims_inprocess.mark_cost: ("claim_mark_cost",),
    claims_inprocess.digest_cost: ("claim_digest_cost",),
    reports.cost: ("claim_reports_cost",),
    events.recorded_cost: ("claim_event_rows_cost",),
    events.published_cost: ("claim_events_cost",),
    audits.idle: ("audit_idle_1000_cpu", "audit_idle_1000_lock"),
    audits.idle_many: ("audit_idle_10000_cpu",),
    audits.contention: ("audit_contention_p99",),
    busy.measure: ("claim_busy_p99",),
    hung_outside.measure: ("hung_outside_p99",),
    starts.many: ("start_10000_claims",),
    starts.memory: ("rss_1000_claims",),
    numa.measure: ("numa_fit_p50", "numa_fit_worst", "numa_refusal"),
    capacity.measure: ("capacity_20", "capacity_decisions", "capacity_stranded"),
    pages.measure: (
        "page_documents",
        "page_documents_json",
        "page_first",
        "page_read",
    ),
    pages.shown: ("page_shown",),
    placement.measure: ("placement_first_push", "placement_idle_requests"),
    allocations.cost: ("claim_allocations_cost",),
    allocations.strict: ("strict_claim_beside_rounds",),
    allocations.drain: ("allocation_drain",),
    scheduler.measure: (
        "schedule_1000",
        "schedule_1000_ten",
        "schedule_1000_numa_pci",
        "schedule_1000_numa_pci_again",
    ),
    fleet_capacity.measure: (
        "fleet_capacity_once",
        "fleet_capacity_changed",
        "fleet_capacity_select_p99",
    ),
    advice.measure: ("advise_1000", "advise_1000_nothing", "advise_select_p99"),
    schedulers.memory: ("scheduler_rss_1000",),
    schedulers.view_lag: ("scheduler_view_lag",),
    schedulers.start: ("schedule_claim_start",),
    builds_together.measure: ("builds_together",),
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
    signal.signal(signal.SIGTERM, _terminate)
    results = Results(console, arguments.json, wanted)
    try:
        with ExitStack() as stack:
            bench = Bench(stack, arguments.quick)
            for measure, names in MEASURES.items():
                if set(names) & set(wanted):
                    results.take(", ".join(names), partial(measure, bench))
    finally:
        results.conclude()
    return 1 if results.failed else 0


def _terminate(*_: object) -> NoReturn:
    """End as after Ctrl-C: servers are stopped, and directories are removed."""
    raise SystemExit(128 + signal.SIGTERM)


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


if __name__ == "__main__":
    raise SystemExit(main())
