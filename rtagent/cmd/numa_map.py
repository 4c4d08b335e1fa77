"""The map of a host's CPUs and pages: each core's threads side by side, each pool a bar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from rtagent.api.numa import CLAIMED, FOREIGN, FREE, HOST, KEPT, OFFLINE, SHARED
from rtagent.model.cpuset import format_cpu_spec
from rtagent.model.pages import format_size

STYLES = {
    CLAIMED: "bold cyan",
    KEPT: "yellow",
    SHARED: "blue",
    FREE: "green",
    FOREIGN: "bold red",
    HOST: "dim",
    OFFLINE: "dim strike",
}

#: Characters of a name that a core has room for, and of a bar.
NAME, BAR = 10, 30
#: Used, reserved, free: to a terminal, and to what may not know these characters.
BLOCKS, LETTERS = "█▒░", "#=."

Document = Mapping[str, Any]


def draw(host: Document, console: Console) -> None:
    """Print a document of ``/numa``; in plain text where the console is no terminal."""
    console.print(Text(host["hypervisor_hostname"], style="bold"))
    if not host["cells"]:
        console.print("The hypervisor tells of no NUMA cells.")
    glyphs = BLOCKS if console.is_terminal else LETTERS
    for cell in host["cells"]:
        console.print()
        console.print(_cell(cell, glyphs))
    owners = list(_owners(host))
    if owners:
        console.print()
        for line in owners:
            console.print(line, soft_wrap=True)


def _cell(cell: Document, glyphs: str) -> RenderableType:
    cores = cell["cores"]
    digits = max((len(str(cpu["id"])) for core in cores for cpu in core), default=1)
    width = max((len(_label(cpu)) for core in cores for cpu in core), default=1)
    drawn = Columns([_core(core, digits, width) for core in cores], padding=(0, 1))
    pools = [_pool(pool, glyphs) for pool in cell["pages"] if pool["total"]]
    return Group(_title(cell), Padding(Group(drawn, *pools), (0, 0, 0, 2)))


def _title(cell: Document) -> Text:
    sockets = format_cpu_spec(cell["sockets"])
    title = Text(f"cell {cell['id']}", style="bold")
    where = f" (socket {sockets})" if sockets else ""
    title.append(
        f"{where}: {cell['memory_used_mb']} of {cell['memory_mb']} MB placed,"
        f" {cell['vcpus']} shared vCPUs placed",
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
    """Whose it is; ``!`` where somebody else is on it, too."""
    name = _short(cpu) if cpu["use"] == CLAIMED else cpu["use"]
    return f"{name}!" if cpu["intruders"] else name


def _short(cpu: Document) -> str:
    return str(cpu["name"] or cpu["owner_id"][:8])[:NAME]


def _pool(pool: Document, glyphs: str) -> Text:
    taken = [round(BAR * pool[part] / pool["total"]) for part in ("used", "reserved")]
    used, reserved = min(taken[0], BAR), min(taken[1], max(0, BAR - taken[0]))
    bar = (used, reserved, BAR - used - reserved)
    drawn = Text(f"{format_size(pool['size_kb']):>7} pages ")
    for glyph, length, use in zip(glyphs, bar, (CLAIMED, HOST, FREE), strict=True):
        drawn.append(glyph * length, style=STYLES[use])
    told = f" {pool['used']} used, {pool['reserved']} reserved, {pool['total']} in all"
    return drawn.append(told)


def _owners(host: Document) -> Iterator[Text]:
    """Who is on the map, in full, with the CPUs of each."""
    held: dict[tuple[str, str], list[Document]] = {}
    for cell in host["cells"]:
        for cpu in (cpu for core in cell["cores"] for cpu in core):
            if cpu["owner_id"] is not None:
                held.setdefault((cpu["use"], cpu["owner_id"]), []).append(cpu)
    for (use, owner), cpus in held.items():
        numbers = format_cpu_spec(cpu["id"] for cpu in cpus)
        name = f" {cpus[0]['name']}" if cpus[0]["name"] else ""
        kind = "domain" if use == FOREIGN else "instance"
        line = Text(use, style=STYLES[use])
        yield line.append(f" {numbers}: {kind}{name} ({owner})", style="not bold default")
