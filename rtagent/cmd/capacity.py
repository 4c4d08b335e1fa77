"""rtagent capacity: how many more guests of each flavor the host takes, and what none can use."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rtagent.cmd.base import List, Row, Rows, Show, columns, row, rows
from rtagent.cmd.node import add_node, only_node
from rtagent.cmd.output import Column, KeyValues, Lines, OrEmpty
from rtagent.errors import FlavorNotFound
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.units import format_size

Document = Mapping[str, Any]

#: What the agent says of vCPUs, memory and disk that Placement decides on.
NOT_JUDGED = (
    "Placement decides on vCPUs, memory and disk here: they are counted with the node's ratios"
)


class Number(Column[Document]):
    """The number of guests, or ``>= N`` if the count stopped there."""

    def lines(self) -> Iterable[str]:
        number = self._value["room"]
        return [f">= {number}" if self._value["at_least"] and number else str(number)]

    def machine_readable(self) -> Any:
        return self._value["room"]


class Places(Column[Sequence[Document]]):
    """A line for each cell, or combination of cells, with the number of guests there."""

    def lines(self) -> Iterator[str]:
        for place in self._value:
            cells = format_cpu_spec(place["cells"])
            where = "any cell" if not cells else f"cell{'s' * (len(place['cells']) > 1)} {cells}"
            yield f"{where}: {place['builds']}"


class CellsLeft(Column[Sequence[Document]]):
    """A line for each cell with what it has left."""

    def lines(self) -> Iterator[str]:
        for cell in self._value:
            parts = [f"{cell['pcpus']} CPUs"]
            for each in cell["pages"]:
                parts.append(f"{each['free']} pages of {format_size(each['size_kb'])}")
            yield f"cell {cell['id']}: {', '.join(parts)}"


class StrandedLines(Column[Sequence[Document]]):
    """A line for each stranded part."""

    def lines(self) -> Iterable[str]:
        return map(stranded_text, self._value)


def stranded_text(part: Document) -> str:
    """Return a sentence about a stranded part."""
    names = f" ({', '.join(part['names'])})" if part["names"] else ""
    number = f"{part['number']} of {part['free']} free {part['unit']}"
    return f"{part['where']}: {part['resource']}, {number}{names}"


def scarce(flavor: Document) -> str:
    """Return what ends the count of a flavor, in the words of a refusal."""
    if flavor["blocked"]:
        return f"not granted at present: {flavor['blocked']}"
    if flavor["never"]:
        return f"never fits: {flavor['never']}"
    reason = flavor["scarce"]
    return "" if reason is None else str(reason["message"])


def _columns(*more: str) -> Any:
    return columns(
        *("flavor=name", "room=row", "scarce", "where=reason.where", *more),
        room=Number,
        where=OrEmpty,
    )


_LIST, _LONG = _columns(), _columns("claims", "in_file", "variant", "fits", "node")
_SHOW = columns(
    *("flavor=name", "room=row", "fits", "scarce", "reasons", "claims", "variant", "blocked"),
    *("places", "cells", "left", "stranded", "node"),
    room=Number,
    reasons=lambda reasons: Lines([reason["message"] for reason in reasons]),
    places=Places,
    cells=CellsLeft,
    left=lambda left: KeyValues(left or {}),
    stranded=StrandedLines,
    blocked=OrEmpty,
)


class CapacityList(List):
    """List how many more guests of each flavor the host takes, and what is scarce then.

    The flavors are those of the live claims and of [capacity] flavors_file. The room of each flavor
    is counted for itself: as if no guest of another flavor came.
    """

    nouns = "flavors: no claim is live, and [capacity] flavors_file lists none"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--long", action="store_true", help="Show more columns.")

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        nodes = self.app.client.read("capacity")["capacity"]
        for node in nodes:
            _warn(self, node)
            if node["left_out"]:
                self.app.LOG.warning(
                    "%s further flavors are left out; show names any of them", node["left_out"]
                )
        found = [_item(node, flavor) for node in nodes for flavor in node["flavors"]]
        return rows(_LONG if parsed_args.long else _LIST, found)


class CapacityShow(Show):
    """Show how many more guests of a flavor the host takes, cell by cell.

    "places" has the cells of these guests, "cells" what each cell has left after them, and
    "stranded" what no flavor can use at present.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("flavor", help='The flavor, as "capacity list" shows it.')
        add_node(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        name = parsed_args.flavor
        nodes = self.app.client.read("capacity", flavor=name)["capacity"]
        node = only_node(nodes, parsed_args.node)
        if not node["flavors"]:
            raise FlavorNotFound(flavor=name, command="rtagent capacity list")
        _warn(self, node)
        return row(_SHOW, _item(node, node["flavors"][0]))


def _warn(command: List | Show, node: Document) -> None:
    log = command.app.LOG
    if node["blocked"]:
        log.warning("no claim is granted at present: %s", node["blocked"])
    if not node["amounts_judged"]:
        log.warning("%s", NOT_JUDGED)


def _item(node: Document, flavor: Document) -> Document:
    return {
        **flavor,
        "row": flavor,
        "scarce": scarce(flavor),
        "reason": flavor["scarce"],
        "node": node["hypervisor_hostname"],
        "stranded": node["stranded"],
    }
