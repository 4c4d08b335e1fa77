"""rtagent schedule: what the scheduler would select, and why."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rtagent.cmd import schedule_request
from rtagent.cmd.base import List, Rows
from rtagent.cmd.cells import Column
from rtagent.cmd.output import Lines, OrEmpty

#: Columns before and after those of the filters.
FIRST, LAST = ("rank", "host", "nodename"), ("weight", "weights")
#: What a filter's cell shows for a host that passes.
PASSES = "yes"


class Weights(Column[Sequence[Mapping[str, Any]]]):
    """A line for each weigher that counts: the weight, and how it was computed."""

    def lines(self) -> Iterable[str]:
        for each in self._value:
            if each["problem"]:
                yield f"{each['weigher']}: {each['problem']}"
            elif each["weight"]:
                made = f"{each['normalized']:g} * {each['multiplier']:g}, of {each['raw']:g}"
                yield f"{each['weigher']}: {each['weight']:g} ({made})"


class ScheduleExplain(List):
    """Show the result of every filter and weigher for every host. Nothing is selected.

    There is a column for each filter that judged: "yes", or why it refuses the host, with
    numbers. The hosts that pass are ranked, best first.
    """

    nouns = "hosts"

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        schedule_request.add_arguments(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        arguments = schedule_request.arguments(parsed_args)
        explanation = self.app.client.call_scheduler(
            "explain", arguments["request_spec"], arguments["instance_uuid"]
        )
        for sentence in explanation["unmatched"]:
            self.app.LOG.warning(sentence)
        objecting = (each["filter"] for host in explanation["hosts"] for each in host["objections"])
        filters = tuple(dict.fromkeys((*explanation["filters"], *objecting)))
        rows = [_row(host, filters) for host in explanation["hosts"]]
        return (*FIRST, *filters, *LAST), rows


def _row(host: Mapping[str, Any], filters: tuple[str, ...]) -> tuple[Any, ...]:
    messages: dict[str, list[str]] = {}
    for each in host["objections"]:
        reasons = [reason["message"] for reason in each["reasons"]]
        messages.setdefault(each["filter"], []).extend(reasons or [each["message"]])
    return (
        *(OrEmpty(host[name]) for name in FIRST),
        *(Lines(messages.get(name, [PASSES])) for name in filters),
        OrEmpty(host["weight"]),
        Weights(host["weights"]),
    )
