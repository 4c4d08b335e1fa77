"""NUMA cells on the host map: cores with their threads, and pools of pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rtagent.api import numa
from rtagent.api.page import quantities
from rtagent.api.page.owners import Owner
from rtagent.api.page.quantities import TIMES
from rtagent.model.base import Value
from rtagent.model.units import KIB_IN_MIB

#: What each use of a CPU is called on the map, and the sign that stands for it where there is no
#: space for words.
WORDS: Mapping[str, str] = {
    numa.CLAIMED: "pinned",
    numa.KEPT: "idle sibling",
    numa.SHARED: "shared",
    numa.FREE: "free",
    numa.FOREIGN: "used without a claim",
    numa.HOST: "host",
    numa.OFFLINE: "offline",
}
SIGNS: Mapping[str, str] = {
    numa.CLAIMED: "",
    numa.KEPT: "\u2013",  # en dash
    numa.SHARED: "≈",
    numa.FREE: "",
    numa.FOREIGN: "?",
    numa.HOST: "◆",
    numa.OFFLINE: TIMES,
}


#: Percent of a bar: a part that is narrower has no outline.
THIN = 1.0
#: Characters of a sign that needs a smaller font where there are many CPUs.
LONG_SIGN = 4


class Thread(Value, frozen=True, kw_only=True):
    """One CPU.

    :ivar style: its classes. :ivar code: of its owner's badge, or "".
    :ivar label: all about it in words.
    """

    id: int
    use: str
    style: str
    code: str
    sign: str
    label: str


class Core(Value, frozen=True, kw_only=True):
    """The threads of a core. :ivar caption: the names of the owners, or the use if none has it."""

    threads: tuple[Thread, ...]
    caption: str


class Segment(Value, frozen=True, kw_only=True):
    """A part of a bar, in percent of its width.

    :ivar style: its classes: "owned", "reserved" or "other", and others.
    :ivar owner: None: the part is reserved, or belongs to owners that are not known.
    """

    start: float
    width: float
    label: str
    style: str
    owner: Owner | None = None


class Pool(Value, frozen=True, kw_only=True):
    """Pages of one size. Quantities are in words."""

    size_kb: int
    size: str
    total: str
    used: str
    reserved: str
    free: str
    overfull: bool
    segments: tuple[Segment, ...]


class Cell(Value, frozen=True, kw_only=True):
    """One cell. :ivar uses: the number of CPUs of each use that occurs."""

    id: int
    memory: str
    memory_used: str
    vcpus: int
    cpus: int
    free: int
    cores: tuple[Core, ...]
    pools: tuple[Pool, ...]


class Socket(Value, frozen=True, kw_only=True):
    """:ivar name: the sockets that share these cells, for example ``0``, or "" if unknown."""

    name: str
    cells: tuple[Cell, ...]


def sockets(cells: Iterable[numa.CellMap], owners: Mapping[str, Owner]) -> tuple[Socket, ...]:
    """Return the cells by socket."""
    found: dict[tuple[int, ...], list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.sockets, []).append(_cell(cell, owners, _in_cell(cell.id, owners)))
    return tuple(
        Socket(name=", ".join(map(str, name)), cells=tuple(members))
        for name, members in found.items()
    )


def _in_cell(cell: int, owners: Mapping[str, Owner]) -> tuple[Owner, ...]:
    """The owners that have memory of a cell."""
    return tuple(each for each in owners.values() if each.usage.numa.memory_mb.get(cell))


def _cell(cell: numa.CellMap, owners: Mapping[str, Owner], here: Sequence[Owner]) -> Cell:
    cores = tuple(_core(core, owners) for core in cell.cores)
    uses = [cpu.use for core in cell.cores for cpu in core]
    return Cell(
        id=cell.id,
        memory=quantities.megabytes(cell.memory_mb),
        memory_used=quantities.megabytes(cell.memory_used_mb),
        vcpus=cell.vcpus,
        cpus=len(uses),
        free=uses.count(numa.FREE),
        cores=cores,
        pools=tuple(_pool(cell, pool, here) for pool in cell.pages if pool.total or pool.used),
    )


def _core(core: Sequence[numa.Cpu], owners: Mapping[str, Owner]) -> Core:
    threads = tuple(_thread(cpu, owners) for cpu in core)
    names = dict.fromkeys(_caption(cpu, owners) for cpu in core)
    return Core(threads=threads, caption=" · ".join(names))


def _caption(cpu: numa.Cpu, owners: Mapping[str, Owner]) -> str:
    owner = owners.get(cpu.owner_id) if cpu.owner_id else None
    return WORDS[cpu.use] if owner is None else owner.name


def _thread(cpu: numa.Cpu, owners: Mapping[str, Owner]) -> Thread:
    owner = owners.get(cpu.owner_id) if cpu.owner_id else None
    about = WORDS[cpu.use] if owner is None else f"{owner.name}, {WORDS[cpu.use]}"
    also = f"; also used by {', '.join(cpu.intruders)}" if cpu.intruders else ""
    sign = SIGNS[cpu.use] or (owner.badge.code if owner else "")
    classes = (
        cpu.use,
        owner.badge.style if owner else "",
        "intruded" if cpu.intruders else "",
        "long" if len(sign) >= LONG_SIGN else "",
    )
    return Thread(
        id=cpu.id,
        use=cpu.use,
        style=" ".join(filter(None, classes)),
        code=owner.badge.code if owner else "",
        sign=sign,
        label=f"CPU {cpu.id}{f' {sign}' if owner else ''}: {about}{also}",
    )


def _pool(cell: numa.CellMap, pool: numa.Pool, here: Sequence[Owner]) -> Pool:
    size = pool.size_kb
    return Pool(
        size_kb=size,
        size=quantities.size(size),
        total=quantities.size(pool.total * size),
        used=quantities.size(pool.used * size),
        reserved=quantities.size(pool.reserved * size) if pool.reserved else "",
        free=quantities.size(pool.free * size),
        overfull=pool.free < 0,
        segments=tuple(_segments(cell, pool, here)),
    )


def _segments(cell: numa.CellMap, pool: numa.Pool, here: Sequence[Owner]) -> Iterator[Segment]:
    """The parts of the bar: reserved pages, then those of each owner."""
    smallest = min(each.size_kb for each in cell.pages)
    start, left = 0, pool.used
    if pool.reserved:
        yield _segment(pool, 0, pool.reserved, "reserved for the host", "reserved")
        start = pool.reserved
    for owner in here:
        pages = min(left, _pages(owner, cell.id, pool.size_kb, smallest))
        if pages > 0:
            yield _segment(pool, start, pages, owner.name, "owned", owner)
            start, left = start + pages, left - pages
    if left > 0:
        yield _segment(pool, start, left, "other", "other")


def _segment(
    pool: numa.Pool, start: int, pages: int, name: str, use: str, owner: Owner | None = None
) -> Segment:
    quantity, width = quantities.size(pages * pool.size_kb), quantities.share(pages, pool.total)
    classes = (use, "thin" if width < THIN else "", owner.badge.style if owner else "")
    return Segment(
        start=quantities.share(start, pool.total),
        width=width,
        label=f"{quantity} in pages of {quantities.size(pool.size_kb)}: {name}",
        style=" ".join(filter(None, classes)),
        owner=owner,
    )


def _pages(owner: Owner, cell: int, size: int, smallest: int) -> int:
    """The pages of that size that an owner has in a cell. Memory without an explicit page size
    counts as pages of the smallest size, as in the document."""
    usage = owner.usage.numa
    explicit = usage.pages.get((cell, size), 0)
    if size != smallest:
        return explicit
    others = usage.memory_mb.get(cell, 0) * KIB_IN_MIB - sum(
        each * number for (where, each), number in usage.pages.items() if where == cell
    )
    return explicit + -(-others // smallest)
