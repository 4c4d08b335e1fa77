"""rtagent schedule capacity: how many more guests of each flavor the fleet takes, and where."""

import argparse
import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rtagent.cmd.base import Cells, List, Rows, columns, rows
from rtagent.cmd.cells import Column
from rtagent.cmd.output import OrEmpty
from rtagent.cmd.schedule import add_request, has_request, request_of
from rtagent.errors import FlavorNotFound, InvalidRequest

Document = Mapping[str, Any]

METHOD = "count_room"
GROUPS = ("host", "zone", "aggregate")
#: Seconds between two looks.
INTERVAL = 2.0
#: What clears a terminal.
CLEAR = "\x1b[H\x1b[2J"


class FleetRoom(Column[Document]):
    """The number of guests; ``>= N`` if more may fit; ``?`` if it is not known."""

    def lines(self) -> Iterable[str]:
        summary = self._value["summary"]
        if summary is None:
            return ["?"]
        return [f"{'>= ' * summary['at_least']}{summary['room']}"]

    def machine_readable(self) -> Any:
        summary = self._value["summary"]
        return None if summary is None else summary["room"]


class Hosts(Column[Document | None]):
    """The number of hosts with room, of those that were counted."""

    def lines(self) -> Iterator[str]:
        if self._value is not None:
            yield f"{self._value['hosts_with_room']} of {self._value['hosts']}"

    def machine_readable(self) -> Any:
        return self._value and {name: self._value[name] for name in ("hosts_with_room", "hosts")}


class Largest(Column[Document | None]):
    """The most that one host takes, and its name."""

    def lines(self) -> Iterator[str]:
        if self._value is not None and self._value["largest"]:
            yield f"{self._value['largest']} on {self._value['largest_host']}"

    def machine_readable(self) -> Any:
        return self._value and {name: self._value[name] for name in ("largest", "largest_host")}


class ScarceLines(Column[Document]):
    """Why no guest fits, or a line for each resource that ends the count of hosts."""

    def lines(self) -> Iterator[str]:
        summary = self._value["summary"]
        if summary is None:
            yield f"not known: only Placement decides on {self._value['undecided']}"
        elif why := self._value["error"] or summary["never"]:
            yield f"never fits: {why}"
        elif not summary["hosts"]:
            yield "no host is counted"
        else:
            for part in summary["scarce"]:
                several = "" if part["hosts"] == 1 else f"{part['hosts']} hosts: "
                yield f"{several}{part['message']}"

    def machine_readable(self) -> Any:
        summary, value = self._value["summary"] or {}, self._value
        never = value["error"] or summary.get("never", "")
        scarce = summary.get("scarce", [])
        return {"never": never, "undecided": value["undecided"], "scarce": scarce}


class RefusedLines(Column[Document | None]):
    """A line for each reason why hosts take no guest, with what they would add."""

    def lines(self) -> Iterator[str]:
        for part in (self._value or {"refused": ()})["refused"]:
            hosts = f"{part['hosts']} host{'s' * (part['hosts'] > 1)}"
            yield f"{hosts}, {part['fits']} more: {part['why']}"

    def machine_readable(self) -> Any:
        return (self._value or {"refused": []})["refused"]


def _columns(by: str | None) -> Cells:
    group = () if by is None else (f"{by}=group",)
    several = () if by == "host" else ("hosts=row.summary", "largest=row.summary")
    return columns(
        *("flavor=name", *group, "room=row", *several, "scarce=row", "refused=row.summary"),
        default=OrEmpty,
        room=FleetRoom,
        hosts=Hosts,
        largest=Largest,
        scarce=ScarceLines,
        refused=RefusedLines,
    )


class ScheduleCapacity(List):
    """List how many more guests of each flavor the hosts take, as the scheduler selects them.

    The flavors are those of the live claims and of [capacity] flavors_file on the machine of the
    scheduler; or the one flavor that the options of "schedule explain" describe. The room of each
    flavor is counted for itself: as if no guest of another flavor came. Hosts that are filtered out
    are listed with what they would add. Nothing is selected.
    """

    nouns = (
        "flavors: no claim is live on the hosts that are known, and [capacity] flavors_file of the"
        " scheduler lists none"
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--flavor", metavar="NAME", help="Only this flavor of the list.")
        parser.add_argument("--by", choices=GROUPS, help="Show a row for each of these.")
        parser.add_argument(
            "--watch", action="store_true", help="Show it again every two seconds, until Ctrl-C."
        )
        add_request(parser)

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run once, or again and again."""
        if not parsed_args.watch:
            return super().run(parsed_args)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                super().run(parsed_args)
                self.app.stdout.flush()
                time.sleep(INTERVAL)
        return 0

    def produce_output(
        self,
        parsed_args: argparse.Namespace,
        column_names: Sequence[str],
        data: Iterable[Sequence[Any]],
    ) -> int:
        if parsed_args.watch and parsed_args.formatter == "table" and self.app.stdout.isatty():
            self.app.stdout.write(CLEAR)
        return super().produce_output(parsed_args, column_names, data)

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        flavors = self._flavors(parsed_args)
        self._warn(flavors)
        by = parsed_args.by
        if by is None:
            return rows(_columns(None), [{**flavor, "row": flavor} for flavor in flavors])
        return rows(_columns(by), [row for each in flavors for row in _groups(each)])

    def _flavors(self, args: argparse.Namespace) -> Sequence[Document]:
        if has_request(args):
            if args.flavor is not None:
                rule = "names a flavor of the list, and other options describe one: use either"
                raise InvalidRequest.at("schedule capacity", "--flavor", rule)
            spec = request_of(args, METHOD, by=args.by)["request_spec"]
            return [self.app.client.call_scheduler(METHOD, spec, args.by)]
        found = self.app.client.read_scheduler("capacity", flavor=args.flavor, by=args.by)
        capacity = found["capacity"]
        if capacity["left_out"] and args.flavor is None:
            self.app.LOG.warning(
                "%s further flavors are left out; --flavor names any of them", capacity["left_out"]
            )
        for host, why in capacity["without_report"].items():
            self.app.LOG.warning("%s is not counted, because it has no report: %s", host, why)
        flavors: Sequence[Document] = capacity["flavors"]
        if args.flavor is not None and not flavors:
            raise FlavorNotFound(flavor=args.flavor, command="rtagent schedule capacity")
        return flavors

    def _warn(self, flavors: Sequence[Document]) -> None:
        pending = max((each["pending"] for each in flavors), default=0)
        if pending:
            self.app.LOG.warning("%s hosts are not counted yet: ask again", pending)
        summaries = [each["summary"] for each in flavors if each["summary"] is not None]
        not_judged = max((each["not_judged"] for each in summaries), default=0)
        if not_judged:
            self.app.LOG.warning(
                "Placement decides on vCPUs, memory and disk of %s hosts: they are counted with the"
                " ratios of the nodes",
                not_judged,
            )


def _groups(flavor: Document) -> Iterator[Document]:
    """Yield a row for each group; one for the flavor, if its room is not known."""
    if flavor["summary"] is None:
        yield {**flavor, "group": None, "row": flavor}
    for group in flavor["groups"]:
        row = {**flavor, "summary": group["summary"]}
        yield {**row, "group": group["name"], "row": row}
