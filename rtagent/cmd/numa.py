"""rtagent numa: a map of the host's CPUs and pages with their owners."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from rtagent.api.numa import CLAIMED, FOREIGN, FREE, HOST, KEPT, OFFLINE, SHARED
from rtagent.cmd.base import Row, Show
from rtagent.cmd.node import add_node, read_node
from rtagent.cmd.output import page_usage
from rtagent.model.base import grouped
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.printable import printable
from rtagent.model.units import format_size

COLUMNS = ("uuid", "hypervisor_hostname", "cells")

STYLES = {
    CLAIMED: "bold cyan",
    KEPT: "yellow",
    SHARED: "blue",
    FREE: "green",
    FOREIGN: "bold red",
    HOST: "dim",
    OFFLINE: "dim strike",
}

#: The number of characters of an owner's name in the map, and of a bar: at most, and at least.
NAME, BAR, SHORT_BAR = 10, 30, 4
#: The number of characters of a pool's line besides its bar and its numbers.
POOL = len("   2MiB pages  ") + 2
#: Characters of a bar for used, reserved and free pages: in a terminal, and in plain ASCII.
BLOCKS, ASCII = "█▒░", "#=."

Document = Mapping[str, Any]


class NumaShow(Show):
    """Show a map of the host's CPUs and pages: each CPU with its owner, thread siblings together.

    A "claimed" CPU has the name of its instance; a "kept" CPU is reserved to stay idle next to it;
    a "foreign" CPU is used by a domain without a claim; "!" marks a CPU that another domain uses,
    too. All formats but the table print the document.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_node(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> Row:
        host = read_node(self.app.client, "numa", parsed_args.node)
        return COLUMNS, tuple(host[name] for name in COLUMNS)

    def produce_output(
        self, parsed_args: argparse.Namespace, column_names: Sequence[str], data: Sequence[Any]
    ) -> int:
        if parsed_args.formatter != "table" or parsed_args.columns:
            return super().produce_output(parsed_args, column_names, data)
        console = Console(file=self.app.stdout, highlight=False)
        draw(dict(zip(column_names, data, strict=True)), console)
        return 0


def draw(host: Document, console: Console) -> None:
    """Print a document of ``/numa`` as a map; in plain ASCII if the console is not a terminal."""
    console.print(Text(printable(host["hypervisor_hostname"]), style="bold"))
    if not host["cells"]:
        console.print("The hypervisor reports no NUMA cells.")
    glyphs = BLOCKS if console.is_terminal else ASCII
    pools = (pool for cell in host["cells"] for pool in cell["pages"] if pool["total"])
    room = console.width - POOL - max((len(page_usage(pool)) for pool in pools), default=0)
    bar = max(SHORT_BAR, min(BAR, room))
    for cell in host["cells"]:
        console.print()
        console.print(_cell(cell, glyphs, bar))
    owners = list(_owners(host))
    if owners:
        console.print()
        for line in owners:
            console.print(line, soft_wrap=True)


def _cell(cell: Document, glyphs: str, bar: int) -> RenderableType:
    cores = cell["cores"]
    digits = max((len(str(cpu["id"])) for core in cores for cpu in core), default=1)
    width = max((len(_label(cpu)) for core in cores for cpu in core), default=1)
    drawn = Columns([_core(core, digits, width) for core in cores], padding=(0, 1))
    pools = [_pool(pool, glyphs, bar) for pool in cell["pages"] if pool["total"]]
    return Group(_title(cell), Padding(Group(drawn, *pools), (0, 0, 0, 2)))


def _title(cell: Document) -> Text:
    sockets = format_cpu_spec(cell["sockets"])
    title = Text(f"cell {cell['id']}", style="bold")
    where = f" (socket {sockets})" if sockets else ""
    title.append(
        f"{where}: {cell['memory_used_mb']} of {cell['memory_mb']} MB assigned,"
        f" {cell['vcpus']} shared vCPUs assigned",
        style="not bold",
    )
    return title


def _core(core: list[Document], digits: int, width: int) -> Text:
    drawn = Text("[")
    for cpu in core:
        if len(drawn) > 1:
            drawn.append(" |")
        drawn.append(f" {cpu['id']:>{digits}} ")
        drawn.append(_label(cpu).ljust(width), style=STYLES[cpu["use"]])
    return drawn.append(" ]")


def _label(cpu: Document) -> str:
    """Return the owner or the use of a CPU, with ``!`` if another domain uses it, too."""
    name = _short(cpu) if cpu["use"] == CLAIMED else cpu["use"]
    return f"{name}!" if cpu["intruders"] else name


def _short(cpu: Document) -> str:
    return printable(cpu["name"] or cpu["owner_id"][:8])[:NAME]


def _pool(pool: Document, glyphs: str, length: int) -> Text:
    shares = [round(length * pool[part] / pool["total"]) for part in ("used", "reserved")]
    used, reserved = min(shares[0], length), min(shares[1], max(0, length - shares[0]))
    bar = (used, reserved, length - used - reserved)
    drawn = Text(f"{format_size(pool['size_kb']):>7} pages ")
    for glyph, share, use in zip(glyphs, bar, (CLAIMED, HOST, FREE), strict=True):
        drawn.append(glyph * share, style=STYLES[use])
    return drawn.append(f" {page_usage(pool)}")


def _owners(host: Document) -> Iterator[Text]:
    """Yield a line for each owner on the map, with its full name and its CPUs."""
    every = (cpu for cell in host["cells"] for core in cell["cores"] for cpu in core)
    owned = (cpu for cpu in every if cpu["owner_id"] is not None)
    for (use, owner), cpus in grouped(((c["use"], c["owner_id"]), c) for c in owned).items():
        numbers = format_cpu_spec(cpu["id"] for cpu in cpus)
        name = f" {printable(cpus[0]['name'])}" if cpus[0]["name"] else ""
        kind = "domain" if use == FOREIGN else "instance"
        line = Text(use, style=STYLES[use])
        yield line.append(
            f" {numbers}: {kind}{name} ({printable(owner)})", style="not bold default"
        )
