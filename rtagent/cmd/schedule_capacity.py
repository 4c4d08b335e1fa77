"""rtagent schedule capacity: how many more guests of each flavor the fleet takes, and where.
rtagent schedule advise: which moves make room for further servers of a flavor.
"""

import argparse
import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote
from typing import Any

from rtagent.cmd.base import Cells, List, Row, Rows, Show, columns, row, rows
from rtagent.cmd.output import Column, Counts, Lines, OrEmpty
from rtagent.cmd.schedule import add_request, has_request, request_of
from rtagent.errors import FlavorNotFound, InvalidRequest

Document = Mapping[str, Any]

COUNT = "count_room"
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
            spec = request_of(args, COUNT, by=args.by)["request_spec"]
            return [self.app.client.call_scheduler(COUNT, spec, args.by)]
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


ADVICE = "advise"
_LIVE = "live-migration"


class Moves(Column[Sequence[Document]]):
    """A line for each move, and one that says why a server is not moved while it runs."""

    def lines(self) -> Iterator[str]:
        for number, move in enumerate(self._value, 1):
            server, live = move["name"] or move["server"], move["kind"] == _LIVE
            how = "while it runs" if live else "stopped"
            yield f"{number}. {server}: {move['source']} -> {move['destination']}, {how}"
            if live:
                yield f"   {move['memory_mb']} MiB of memory to copy"
            else:
                yield f"   because {move['why_cold']}; it has {move['memory_mb']} MiB of memory"


class Shortages(Column[Sequence[Document]]):
    """A line for each host with what it has too little of."""

    def lines(self) -> Iterable[str]:
        return [f"{each['host']}: {each['reason']['message']}" for each in self._value]


_ADVICE = columns(
    *("answer", "room", "room_after", "moves", "commands", "scarce", "refused", "leaving"),
    *("no_destination", "searched_moves", "searched", "cut_short"),
    room_after=OrEmpty,
    moves=Moves,
    commands=Lines,
    scarce=Shortages,
    refused=Counts,
    no_destination=Shortages,
)


class ScheduleAdvise(Show):
    """Show the cheapest moves of servers after which servers of a flavor find a host.

    At most three servers move, the smallest ones that help. Nothing is moved: the commands that do
    it are shown. Without a solution, "scarce" has what hosts lack, and "no_destination" why no
    other host takes the server whose departure would help.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--flavor",
            metavar="NAME",
            help='The flavor, as "schedule capacity" shows it; or describe a request.',
        )
        parser.add_argument(
            "--count", metavar="N", type=int, default=1, help="How many servers. Default: 1."
        )
        add_request(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        flavor, count = parsed_args.flavor, parsed_args.count
        if count < 1:
            raise InvalidRequest.at("schedule advise", "--count", "must be at least 1")
        if flavor is not None and has_request(parsed_args):
            rule = "names a flavor, and other options describe one: use either"
            raise InvalidRequest.at("schedule advise", "--flavor", rule)
        spec = None
        if flavor is None:
            spec = request_of(parsed_args, ADVICE, count=count)["request_spec"]
        advice = self.app.client.call_scheduler(ADVICE, spec, flavor, count)
        shown = {**advice, "answer": answer(advice, count), "commands": list(_commands(advice))}
        return row(_ADVICE, shown)


def answer(advice: Document, count: int) -> str:
    """Return the advice in one sentence."""
    moves, wanted = len(advice["moves"]), f"{count} server{'s' * (count > 1)}"
    if advice["more"]:
        return f"there is room for {wanted} already"
    if advice["undecided"]:
        return f"not known: only Placement decides on {advice['undecided']}"
    if advice["never"]:
        return f"never fits: {advice['never']}"
    cut = "the search was cut short"
    if moves:
        cheaper = f"; {cut}, so there may be a cheaper way" if advice["cut_short"] else ""
        return f"after {moves} move{'s' * (moves > 1)} there is room for {wanted}{cheaper}"
    if not advice["scarce"]:
        return "no host takes servers of this flavor, whatever moves"
    number = advice["searched_moves"]
    if advice["cut_short"] and not number:
        return f"unknown: {cut} before every single move was tried"
    nothing = f"no plan of up to {number} move{'s' * (number != 1)} was found"
    return f"{nothing}; {cut} then" if advice["cut_short"] else nothing


def _commands(advice: Document) -> Iterator[str]:
    """Yield what an operator types, in this order."""
    for move in advice["moves"]:
        server, host = quote(move["server"]), quote(move["destination"])
        live = move["kind"] == _LIVE
        yield f"rtagent server migrate {server} {'--live ' * live}--host {host}"
        if not live:
            yield f"rtagent server confirm {server}"
