"""What of the host a domain's document binds it to: CPUs, cells, pages, devices. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from lxml import etree

from rtagent.model.base import Value
from rtagent.model.cpuset import BadCpuSet, parse_cpu_spec
from rtagent.model.numa_usage import Occupancy
from rtagent.virt.libvirt.document import BadDocument, integer
from rtagent.virt.libvirt.guest_devices import Given, given_devices
from rtagent.virt.libvirt.units import in_bytes

_KIB = 1024
_MIB = 1024**2


class Confinement(Value, frozen=True, kw_only=True):
    """:ivar cpusets: each set of host CPUs that some of its threads are kept to.
    :ivar memory_mb: MB by the host's cell, rounded up, of guest cells bound to just one.
    :ivar pages: theirs, by the host's cell, by size (KiB).
    :ivar given: devices that it has whole.
    """

    cpusets: tuple[frozenset[int], ...] = ()
    memory_mb: Mapping[int, int] = {}
    pages: Mapping[int, Mapping[int, int]] = {}
    given: Given = Given()

    def occupancy(self, online: frozenset[int], vdpas: Mapping[str, str]) -> Occupancy:
        """:param online: the host's CPUs: being kept to all of them is no confinement. Empty:
            not known.
        :param vdpas: addresses of vDPA devices by their paths; one that has none is left out.
        """
        confining = (cpus for cpus in self.cpusets if not online or online - cpus)
        behind = (vdpas[path] for path in self.given.vdpas if path in vdpas)
        return Occupancy(
            pcpus=frozenset[int]().union(*confining),
            memory_mb=self.memory_mb,
            pages=self.pages,
            devices=self.given.addresses.union(behind),
            mdevs=self.given.mdevs,
        )


NOWHERE = Confinement()


class _Bound(Value, frozen=True, kw_only=True):
    """A guest cell: the host's, bytes of memory, and the page size (KiB) if an explicit one."""

    host: int
    memory: int
    pagesize: int | None


def confinement(domain: etree._Element) -> Confinement:
    """:raises BadDocument: naming what is odd."""
    cpusets = tuple(dict.fromkeys(_cpusets(domain)))
    cells = list(_bound(domain))
    given = given_devices(domain)
    if not cpusets and not cells and given == Given():
        return NOWHERE
    memory = Counter[int]()
    pages: dict[int, Counter[int]] = {}
    for cell in cells:
        memory[cell.host] += cell.memory
        if cell.pagesize is not None:
            pool = pages.setdefault(cell.host, Counter())
            pool[cell.pagesize] += -(-cell.memory // (cell.pagesize * _KIB))
    return Confinement(
        cpusets=cpusets,
        memory_mb={cell: -(-size // _MIB) for cell, size in memory.items()},
        pages={cell: dict(pool) for cell, pool in pages.items()},
        given=given,
    )


def _cpusets(domain: etree._Element) -> Iterator[frozenset[int]]:
    tuned = domain.find("cputune")
    pins = () if tuned is None else tuned.iterchildren("vcpupin", "emulatorpin")
    for element in (*domain.iterchildren("vcpu"), *pins):
        if element.get("cpuset") is not None:
            yield _numbers(element, "cpuset")


def _bound(domain: etree._Element) -> Iterator[_Bound]:
    """The guest's cells that are bound to one of the host's."""
    tuned = domain.find("numatune")
    if tuned is None:  # most domains
        return
    hosts, sizes = _host_cells(tuned), _page_sizes(domain)
    for number, (element, value) in _memories(domain).items():
        memory = in_bytes(element, value, f"memory of guest cell {number}")
        host = hosts.get(number, hosts.get(None))
        if host is not None:
            yield _Bound(host=host, memory=memory, pagesize=sizes.get(number, sizes.get(None)))


def _memories(domain: etree._Element) -> dict[int, tuple[etree._Element, str | None]]:
    """By guest cell, what tells its memory; a guest without cells is cell 0."""
    cells = domain.findall("cpu/numa/cell")
    if cells:
        return {
            integer(cell.get("id", str(place)), "<cell id>"): (cell, cell.get("memory"))
            for place, cell in enumerate(cells)
        }
    memory = domain.find("memory")
    return {} if memory is None else {0: (memory, memory.text)}


def _host_cells(numatune: etree._Element) -> dict[int | None, int | None]:
    """By guest cell, its host cell if it is bound to just one; under None that of the others.

    In every mode a single cell is where the memory is meant to be.
    """
    memory = numatune.find("memory")
    bound: dict[int | None, int | None] = {None: None if memory is None else _only(memory)}
    for node in numatune.iterfind("memnode"):
        bound[integer(node.get("cellid"), "<memnode cellid>")] = _only(node)
    return bound


def _only(element: etree._Element) -> int | None:
    if element.get("nodeset") is None:  # left to libvirt
        return None
    cells = _numbers(element, "nodeset")
    return next(iter(cells)) if len(cells) == 1 else None


def _page_sizes(domain: etree._Element) -> dict[int | None, int]:
    """KiB, by guest cell; under None that of the others."""
    sizes: dict[int | None, int] = {}
    for page in domain.iterfind("memoryBacking/hugepages/page"):
        size = in_bytes(page, page.get("size"), "<page size>") // _KIB
        if not size:
            raise BadDocument("<page size> is less than 1 KiB")
        anywhere = page.get("nodeset") is None
        sizes.update(dict.fromkeys([None] if anywhere else _numbers(page, "nodeset"), size))
    return sizes


def _numbers(element: etree._Element, attribute: str) -> frozenset[int]:
    try:
        return parse_cpu_spec(element.get(attribute, ""))
    except BadCpuSet as error:
        raise BadDocument(f"<{element.tag} {attribute}>: {error}") from error
