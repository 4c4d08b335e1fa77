"""The host map: what the host has, who has which part of it, and beside it what still fits: the
room of each flavor, and the stranded parts.

It is made of the documents of the read API, so it shows what they show.
"""

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from rtagent.api import nodes, numa, pci
from rtagent.api.page.owners import Owner, OwnerRows
from rtagent.api.page.rendering import Content, size
from rtagent.api.pci import DeviceView, Resource
from rtagent.capacity.stranded import Stranded
from rtagent.model.base import Value, grouped
from rtagent.model.cpuset import parse_cpu_spec
from rtagent.model.device import NO_ROOT_PORTS, RootPorts
from rtagent.model.node_state import NodeState
from rtagent.model.units import KIB_IN_MIB
from rtagent.pci.device_users import ALLOCATED, AVAILABLE, CLAIMED


class StrandedParts(Value, frozen=True, kw_only=True):
    """The parts of the map that are stranded.

    :ivar pools: cells and sizes in KiB. :ivar names: of devices and assigned resources.
    """

    cpus: frozenset[int] = frozenset()
    pools: frozenset[tuple[int, int]] = frozenset()
    names: frozenset[str] = frozenset()

    @property
    def any(self) -> bool:
        """Whether something on the map is stranded."""
        return bool(self.cpus or self.pools or self.names)


NOTHING = StrandedParts()

#: A count is shown for so many times the time that it took, also if the host has changed by then.
#: So a page that is looked at uses a tenth of a CPU for it at most, also on a large host.
PAUSE = 9
#: Seconds after which it is counted anew in any case.
LONGEST_PAUSE = 10.0


class ShownRoom(Value, frozen=True, kw_only=True):
    """The part "What still fits".

    :ivar host: the document of ``/capacity``. :ivar most: the largest room of a flavor.
    """

    host: Mapping[str, Any]
    most: int
    parts: StrandedParts


class KeptRoom:
    """The room that the page shows: now and then that of a revision before. Pages are rendered one
    at a time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: tuple[Hashable, Hashable, ShownRoom] | None = None
        self._until = 0.0

    def version(self, revision: Hashable, rest: Hashable) -> Hashable:
        """Return what changes when `of` shows something else.

        :param revision: of the host. :param rest: all else on which the room depends. It is shown
            at once.
        """
        kept = self._kept
        if kept is not None and kept[1] == rest and self._clock() < self._until:
            revision = kept[0]
        return revision, rest

    def of(
        self, revision: Hashable, rest: Hashable, count: Callable[[], Mapping[str, Any]]
    ) -> ShownRoom:
        """Return the room. :param count: returns the document of ``/capacity``."""
        if self._kept is None or self.version(revision, rest) != self._kept[:2]:
            began = self._clock()
            room = _room(count())
            ended = self._clock()
            self._kept = revision, rest, room
            self._until = ended + min(LONGEST_PAUSE, PAUSE * (ended - began))
        return self._kept[2]


def _room(host: Mapping[str, Any]) -> ShownRoom:
    most = max((flavor["room"] for flavor in host["flavors"]), default=0)
    return ShownRoom(host=host, most=most, parts=_parts(host["stranded"]))


def _parts(stranded: Iterable[Stranded]) -> StrandedParts:
    listed = list(stranded)
    cpus = [parse_cpu_spec(part.names[0]) for part in listed if part.resource == "PCPU"]
    return StrandedParts(
        cpus=frozenset[int]().union(*cpus),
        pools=frozenset(
            (part.cell, part.size_kb)
            for part in listed
            if part.cell is not None and part.size_kb is not None
        ),
        names=frozenset(name for part in listed for name in part.names),
    )


#: Up to so many CPUs are drawn large, and up to so many at the usual size.
FEW, USUAL = 16, 160
#: Parts of a bus that leave space for others on its line.
FEW_PARTS = 4
#: The classes of Placement, in words.
CLASSES: Mapping[str, str] = {
    "PCPU": "Dedicated CPUs",
    "VCPU": "Shared vCPUs",
    "MEMORY_MB": "Memory",
    "DISK_GB": "Disk",
}
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
    numa.OFFLINE: "\u00d7",  # multiplication sign
}

#: What is the same for every host.
_WORDS: Mapping[str, Any] = {"classes": CLASSES, "words": WORDS, "signs": SIGNS}

_Owners = Mapping[str, Owner]


class Segment(Value, frozen=True, kw_only=True):
    """A part of a bar. :ivar use: ``owned``; without a known owner ``reserved`` or ``other``.
    :ivar page_kb: KiB of one of its pages.
    """

    start: int
    pages: int
    page_kb: int
    use: str = "owned"
    owner: Owner | None = None

    @property
    def label(self) -> str:
        """What it is, and whose."""
        host = "reserved for the host" if self.use == "reserved" else "other"
        whose = self.owner.name if self.owner else host
        return f"{size(self.pages * self.page_kb)} in pages of {size(self.page_kb)}: {whose}"


class Unit(Value, frozen=True, kw_only=True):
    """What one owner can have: a device, a virtual function, a mediated device.

    :ivar key: unique on the page. :ivar stranded: it is free, and no flavor can use it.
    """

    key: str
    document: DeviceView | Resource
    owner: Owner | None
    stranded: bool = False

    @property
    def use(self) -> str:
        """``owned``, ``free``, or ``unavailable``."""
        status = self.document.status
        if self.owner is not None or status in (ALLOCATED, CLAIMED):
            return "owned"
        return "free" if status == AVAILABLE else "unavailable"

    @property
    def short(self) -> str:
        """What its box has room for."""
        if isinstance(self.document, DeviceView):
            return self.document.address[-4:]
        identifier = self.document.identifier
        return identifier.rpartition("/")[2] if self.document.parent_addr else identifier

    @property
    def about(self) -> str:
        """Of a device: what it is."""
        device = self.document
        if not isinstance(device, DeviceView):
            return ""
        name = f" {device.net_name}" if device.net_name else ""
        return f"{device.vendor_id}:{device.product_id}{name}"

    @property
    def label(self) -> str:
        """What a screen reader says."""
        unit, lost = self.document, ", stranded" if self.stranded else ""
        who = f" {self.owner.badge.code}: {self.owner.name}, " if self.owner else ": "
        if not isinstance(unit, DeviceView):
            gone = "" if unit.present else " (gone from the host)"
            parent = f" of {unit.parent_addr}" if unit.parent_addr else ""
            what = f"{unit.resource_class} {unit.identifier}{parent}"
            return f"{self.short}{who}{unit.status}{lost}{gone}; {what}"
        reason = f" ({unit.reason})" if unit.reason else ""
        others = f"; also used by {', '.join(unit.others)}" if unit.others else ""
        group = "" if unit.iommu_group is None else f", IOMMU group {unit.iommu_group}"
        what = f"{unit.dev_type} {unit.address}, {self.about}{group}"
        return f"{self.short}{who}{unit.status}{lost}{reason}{others}; {what}"


class Function(Value, frozen=True, kw_only=True):
    """A device of the host.

    :ivar unit: None: it cannot be assigned itself, only what it makes.
    :ivar parts: virtual functions and mediated devices of it.
    """

    address: str
    unit: Unit | None
    parts: Sequence[Unit]


class Port(Value, frozen=True, kw_only=True):
    """The functions behind one root port, by bus: domain and bus, for example ``0000:3b``.

    :ivar address: None: a bus that is behind no root port, or behind one that is not known.
    """

    address: str | None
    buses: Mapping[str, Sequence[Function]]

    @property
    def many(self) -> bool:
        """Whether a function has so many parts that the port needs the whole width."""
        return any(len(each.parts) > FEW_PARTS for bus in self.buses.values() for each in bus)


class DeviceTree(Value, frozen=True, kw_only=True):
    """The root ports of a NUMA node. :ivar free: units that claims can have, of :ivar total:."""

    ports: Sequence[Port]
    free: int
    total: int


def host_map(
    state: NodeState,
    rows: OwnerRows,
    notes: Mapping[int, Sequence[str]] | None = None,
    ports: RootPorts = NO_ROOT_PORTS,
    room: ShownRoom | None = None,
    tested: str | None = None,
) -> Content:
    """Return the host map.

    :param notes: sentences to show in cells. :param ports: the root ports of the devices.
    :param room: what still fits; None: it is not shown.
    :param tested: the owner of a claim that was not made; what it has stands out.
    """
    stranded = room.parts if room is not None else NOTHING
    owners, table = rows.of(state, tested)
    if tested is not None:
        badge = owners[tested].badge
        lit = replace(owners[tested], badge=replace(badge, style=f"{badge.style} would-be"))
        owners = {**owners, tested: lit}
    cells: Sequence[numa.CellMap] = numa.document(state)["cells"]
    sockets = grouped((cell.sockets, cell) for cell in cells)

    def unit(key: str, document: DeviceView | Resource, name: str) -> Unit:
        lost = document.status == AVAILABLE and name in stranded.names
        owner = owners.get(document.owner_id or "")
        return Unit(key=key, document=document, owner=owner, stranded=lost)

    units = [
        unit(f"res-{number}", resource, resource.identifier)
        for number, resource in enumerate(pci.resources(state)["resources"])
    ]
    found = pci.devices(state, {}, ports)["pci"]
    listed = [unit(f"dev-{device.address}", device, device.address) for device in found]
    devices = _trees(listed, units, ports)
    bars = {cell.id: list(_bars(cell, owners)) for cell in cells}
    uses = Counter(cpu.use for cell in cells for core in cell.cores for cpu in core)
    return Content(
        template="host_map.html",
        values={
            "node": nodes.document(state),
            "sockets": sockets,
            "bars": bars,
            "density": _density(uses.total()),
            "uses": [use for use in numa.USES if use in uses],
            "caption": partial(_caption, owners),
            "cpu_label": partial(_cpu_label, owners, stranded.cpus),
            **_WORDS,
            "trees": devices,
            "elsewhere": {name: tree for name, tree in devices.items() if name not in bars},
            "host_units": _host_units(units),
            "owners": owners,
            "owner_rows": table,
            "notes": notes or {},
            "room": room,
            "stranded": stranded,
        },
    )


def _density(cpus: int) -> str:
    return "sparse" if cpus <= FEW else "usual" if cpus <= USUAL else "dense"


def _caption(owners: _Owners, core: Iterable[numa.Cpu]) -> str:
    """The names of a core's owners, or the use if none has it."""
    owned = ((owners.get(cpu.owner_id or ""), cpu.use) for cpu in core)
    return " · ".join(dict.fromkeys(o.name if o else WORDS[use] for o, use in owned))


def _cpu_label(owners: _Owners, stranded: frozenset[int], cpu: numa.Cpu) -> str:
    """What a screen reader says of a CPU."""
    owner = owners.get(cpu.owner_id or "")
    who = f" {SIGNS[cpu.use] or owner.badge.code}: {owner.name}, " if owner else ": "
    also = f"; also used by {', '.join(cpu.intruders)}" if cpu.intruders else ""
    lost = ", stranded" if cpu.use == numa.FREE and cpu.id in stranded else ""
    return f"CPU {cpu.id}{who}{WORDS[cpu.use]}{lost}{also}"


def _bars(cell: numa.CellMap, owners: _Owners) -> Iterator[tuple[numa.Pool, Sequence[Segment]]]:
    """The pools of a cell that have pages, with the parts of the bar of each."""
    here = [owner for owner in owners.values() if owner.usage.numa.memory_mb.get(cell.id)]
    for pool in cell.pages:
        if pool.total or pool.used:
            yield pool, list(_segments(cell, pool, here))


def _segments(cell: numa.CellMap, pool: numa.Pool, here: Iterable[Owner]) -> Iterator[Segment]:
    """The parts of a bar: reserved pages, then those of each owner."""
    smallest = min(each.size_kb for each in cell.pages)
    start, left, kib = 0, pool.used, pool.size_kb
    if pool.reserved:
        yield Segment(start=0, pages=pool.reserved, page_kb=kib, use="reserved")
        start = pool.reserved
    for owner in here:
        pages = min(left, _pages(owner, cell.id, kib, smallest))
        if pages > 0:
            yield Segment(start=start, pages=pages, page_kb=kib, owner=owner)
            start, left = start + pages, left - pages
    if left > 0:
        yield Segment(start=start, pages=left, page_kb=kib, use="other")


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


def _trees(
    devices: Iterable[Unit], units: Iterable[Unit], ports: RootPorts
) -> Mapping[int | None, DeviceTree]:
    """Return the devices by NUMA node; None: the device reports none."""
    by_address = {
        unit.document.address: unit for unit in devices if isinstance(unit.document, DeviceView)
    }
    parents = ((unit.document.parent_addr, unit) for unit in (*by_address.values(), *units))
    parts = grouped((parent, unit) for parent, unit in parents if parent)
    whole = (a for a, unit in by_address.items() if not unit.document.parent_addr)
    found: dict[int | None, dict[str, list[Function]]] = {}
    for address in sorted({*parts, *whole}):
        function = Function(
            address=address, unit=by_address.get(address), parts=parts.get(address, ())
        )
        found.setdefault(_node(function), {}).setdefault(_bus(address), []).append(function)
    # All devices of a bus are behind the same port, also those that are not known any more.
    by_bus = {_bus(address): port for address, port in ports.items()}
    return {node: _tree(buses, by_bus) for node, buses in found.items()}


def _tree(buses: Mapping[str, Sequence[Function]], by_bus: Mapping[str, str]) -> DeviceTree:
    functions = [function for bus in buses.values() for function in bus]
    units = [unit for each in functions for unit in (each.unit, *each.parts) if unit is not None]
    behind: dict[str, dict[str, Sequence[Function]]] = {}
    for name, bus in buses.items():
        behind.setdefault(by_bus.get(name, name), {})[name] = bus
    ports = (Port(address=by_bus.get(next(iter(each))), buses=each) for each in behind.values())
    return DeviceTree(
        ports=sorted(ports, key=lambda port: port.many),
        free=sum(unit.use == "free" for unit in units),
        total=len(units),
    )


def _host_units(units: Iterable[Unit]) -> Mapping[str, list[Unit]]:
    """The units of the host itself by resource class: persistent memory."""
    return grouped(
        (unit.document.resource_class, unit)
        for unit in units
        if isinstance(unit.document, Resource) and not unit.document.parent_addr
    )


def _bus(address: str) -> str:
    """Domain and bus."""
    return address[:7]


def _node(function: Function) -> int | None:
    """The NUMA node of a device, or that of its virtual functions if only they are listed."""
    units = function.parts if function.unit is None else (function.unit,)
    nodes = [unit.document.numa_node for unit in units if isinstance(unit.document, DeviceView)]
    return min((node for node in nodes if node is not None), default=None)
