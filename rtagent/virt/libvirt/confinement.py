"""Parse the host CPUs, cells, pages and devices that a domain document binds. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lxml import etree

from rtagent.model.base import Value
from rtagent.model.cpuset import MAX_CPU, BadCpuSet, parse_cpu_spec
from rtagent.model.domain_usage import UNBOUND, Occupancy
from rtagent.model.units import BYTES_IN_KIB, BYTES_IN_MIB, round_up
from rtagent.virt.libvirt.document import BadDocument, child, integer
from rtagent.virt.libvirt.guest_devices import Given, given_devices
from rtagent.virt.libvirt.launch_security import encryption_model
from rtagent.virt.libvirt.units import in_bytes

#: The elements that pin threads of a domain.
_PINS = ("vcpupin", "emulatorpin", "iothreadpin")


class Confinement(Value, frozen=True, kw_only=True):
    """:ivar cpusets: each set of host CPUs to which some of the domain's threads are pinned.
    :ivar memory_mb: MB by host cell, rounded up, of the guest cells bound to exactly one.
    :ivar pages: pages of those guest cells, by host cell and size (KiB).
    :ivar given: devices passed through to the domain.
    :ivar mem_encryption: the model by which its memory is encrypted, or None.
    """

    cpusets: tuple[frozenset[int], ...] = ()
    memory_mb: Mapping[int, int] = {}
    pages: Mapping[int, Mapping[int, int]] = {}
    given: Given = Given()
    mem_encryption: str | None = None

    def occupancy(
        self,
        online: frozenset[int],
        vdpas: Mapping[str, str],
        namespaces: Mapping[str, str] = {},
    ) -> Occupancy:
        """:param online: the host's CPUs; a set that contains all of them is not counted as
            pinning. Empty: unknown.
        :param vdpas: addresses of vDPA devices by path; a device without a path is omitted.
        :param namespaces: names of persistent memory namespaces by path; others are omitted.
        """
        if self is NOWHERE:  # most domains
            return UNBOUND
        confining = (cpus for cpus in self.cpusets if not online or online - cpus)
        behind = (vdpas[path] for path in self.given.vdpas if path in vdpas)
        return Occupancy(
            pcpus=frozenset[int]().union(*confining),
            memory_mb=self.memory_mb,
            pages=self.pages,
            devices=self.given.addresses.union(behind),
            mdevs=self.given.mdevs,
            mem_encryption=self.mem_encryption,
            namespaces=frozenset(
                namespaces[path] for path in self.given.namespaces if path in namespaces
            ),
        )


NOWHERE = Confinement()


class _Bound(Value, frozen=True, kw_only=True):
    """A guest cell: its host cell, its memory (bytes) and its explicit page size (KiB), if any."""

    host: int
    memory: int
    pagesize: int | None


def confinement(domain: etree._Element) -> Confinement:
    """Return what the domain is bound to. :raises BadDocument: names the invalid element."""
    cpusets = tuple(dict.fromkeys(_cpusets(domain)))
    cells = list(_bound(domain))
    given, model = given_devices(domain), encryption_model(domain)
    if not cpusets and not cells and given == Given() and model is None:
        return NOWHERE
    memory = Counter[int]()
    pages: dict[int, Counter[int]] = {}
    for cell in cells:
        memory[cell.host] += cell.memory
        if cell.pagesize is not None:
            pool = pages.setdefault(cell.host, Counter())
            pool[cell.pagesize] += round_up(cell.memory, cell.pagesize * BYTES_IN_KIB)
    return Confinement(
        cpusets=cpusets,
        memory_mb={cell: round_up(size, BYTES_IN_MIB) for cell, size in memory.items()},
        pages={cell: dict(pool) for cell, pool in pages.items()},
        given=given,
        mem_encryption=model,
    )


def _cpusets(domain: etree._Element) -> Iterator[frozenset[int]]:
    tuned = child(domain, "cputune")
    pins = [] if tuned is None else list(tuned.iterchildren(*_PINS))
    # The set of <vcpu> is that of the threads without a pin.
    inherited = () if _all_pinned(domain, pins) else domain.iterchildren("vcpu")
    for element in (*inherited, *pins):
        if element.get("cpuset") is not None:
            yield numbers(element, "cpuset")


def _all_pinned(domain: etree._Element, pins: Sequence[etree._Element]) -> bool:
    """Return whether the emulator, each vCPU and each I/O thread has a pin."""
    if not pins:  # most domains
        return False
    pinned = Counter(pin.tag for pin in pins)
    return (
        pinned["emulatorpin"] > 0
        and pinned["vcpupin"] >= _number(domain, "vcpu")
        and pinned["iothreadpin"] >= _number(domain, "iothreads")
    )


def _number(domain: etree._Element, name: str) -> int:
    element = child(domain, name)
    return 0 if element is None else integer(element.text, f"<{name}>", MAX_CPU)


def _bound(domain: etree._Element) -> Iterator[_Bound]:
    """Yield the guest cells that are bound to exactly one host cell."""
    tuned = child(domain, "numatune")
    if tuned is None:  # most domains
        return
    hosts, sizes = host_cells(tuned), page_sizes(domain)
    for number, (element, value) in memories(domain).items():
        memory = in_bytes(element, value, f"memory of guest cell {number}")
        host = hosts.get(number, hosts.get(None))
        if host is not None:
            yield _Bound(host=host, memory=memory, pagesize=sizes.get(number, sizes.get(None)))


def memories(domain: etree._Element) -> dict[int, tuple[etree._Element, str | None]]:
    """Return the element and text with the memory of each guest cell; cell 0 without cells."""
    cells = domain.findall("cpu/numa/cell")
    if cells:
        return {
            integer(cell.get("id", str(place)), "<cell id>", MAX_CPU): (cell, cell.get("memory"))
            for place, cell in enumerate(cells)
        }
    memory = domain.find("memory")
    return {} if memory is None else {0: (memory, memory.text)}


def host_cells(numatune: etree._Element) -> dict[int | None, int | None]:
    """Return the host cell of each guest cell that is bound to exactly one. The key None means all
    other guest cells.

    The mode is irrelevant: if ``nodeset`` has a single cell, the memory belongs to that cell.
    """
    memory = numatune.find("memory")
    bound: dict[int | None, int | None] = {None: None if memory is None else _only(memory)}
    for node in numatune.iterfind("memnode"):
        bound[integer(node.get("cellid"), "<memnode cellid>", MAX_CPU)] = _only(node)
    return bound


def _only(element: etree._Element) -> int | None:
    if element.get("nodeset") is None:  # libvirt chooses
        return None
    cells = numbers(element, "nodeset")
    return next(iter(cells)) if len(cells) == 1 else None


def page_sizes(domain: etree._Element) -> dict[int | None, int]:
    """Return the page size (KiB) of each guest cell. The key None means all other guest cells."""
    sizes: dict[int | None, int] = {}
    for page in domain.iterfind("memoryBacking/hugepages/page"):
        size = in_bytes(page, page.get("size"), "<page size>") // BYTES_IN_KIB
        if not size:
            raise BadDocument("<page size> is less than 1 KiB")
        anywhere = page.get("nodeset") is None
        sizes.update(dict.fromkeys([None] if anywhere else numbers(page, "nodeset"), size))
    return sizes


def numbers(element: etree._Element, attribute: str) -> frozenset[int]:
    try:
        return parse_cpu_spec(element.get(attribute, ""))
    except BadCpuSet as error:
        raise BadDocument(f"<{element.tag} {attribute}>: {error}") from error
