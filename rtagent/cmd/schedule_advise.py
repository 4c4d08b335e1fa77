"""rtagent schedule advise: which moves make room for further servers of a flavor."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote
from typing import Any

from rtagent.cmd.base import Row, Show, columns, row
from rtagent.cmd.cells import Column
from rtagent.cmd.output import Counts, Lines, OrEmpty
from rtagent.cmd.schedule import add_request, has_request, request_of
from rtagent.errors import InvalidRequest

METHOD = "advise"
_LIVE = "live-migration"

Document = Mapping[str, Any]


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
            spec = request_of(parsed_args, METHOD, count=count)["request_spec"]
        advice = self.app.client.call_scheduler(METHOD, spec, flavor, count)
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
