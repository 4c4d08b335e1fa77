"""Parse the host CPUs, cells, pages and devices that a domain document binds. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lxml import etree

from rtagent.model.base import Value
from rtagent.model.cpuset import MAX_CPU, BadCpuSet, parse_cpu_spec
from rtagent.model.domain_usage import UNBOUND, HostResource, Occupancy
from rtagent.model.units import BYTES_IN_KIB, BYTES_IN_MIB, round_up
from rtagent.virt.libvirt.document import BadDocument, child, integer
from rtagent.virt.libvirt.guest_devices import Given, readable_devices
from rtagent.virt.libvirt.launch_security import encryption_model
from rtagent.virt.libvirt.units import in_bytes
from rtagent.virt.libvirt.unread import Unread

#: The elements that pin threads of a domain.
_PINS = ("vcpupin", "emulatorpin", "iothreadpin")


class Confinement(Value, frozen=True, kw_only=True):
    """:ivar cpusets: each set of host CPUs to which some of the domain's threads are pinned.
    :ivar memory_mb: MB by host cell, rounded up, of the guest cells bound to exactly one.
    :ivar pages: pages of those guest cells, by host cell and size (KiB).
    :ivar given: devices passed through to the domain.
    :ivar mem_encryption: the model by which its memory is encrypted, or None.
    :ivar unknown: what may be more than these fields say.
    """

    cpusets: tuple[frozenset[int], ...] = ()
    memory_mb: Mapping[int, int] = {}
    pages: Mapping[int, Mapping[int, int]] = {}
    given: Given = Given()
    mem_encryption: str | None = None
    unknown: frozenset[HostResource] = frozenset()

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
            unknown=self.unknown,
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


def confinement(domain: etree._Element, unread: Unread) -> Confinement:
    """Return what the domain is bound to, as far as its document says.

    :param unread: what it does not say is added to it.
    """
    cpusets = tuple(dict.fromkeys(_cpusets(domain, unread)))
    cells = list(_bound(domain, unread))
    given = readable_devices(domain, unread)
    model = next(unread.each(encryption_model, [domain], HostResource.ENCRYPTION), None)
    unknown = frozenset(unread.kinds)
    if not cpusets and not cells and given == Given() and model is None and not unknown:
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
        unknown=unknown,
    )


def _cpusets(domain: etree._Element, unread: Unread) -> Iterator[frozenset[int]]:
    tuned = child(domain, "cputune")
    pins = [] if tuned is None else list(tuned.iterchildren(*_PINS))
    # The set of <vcpu> is that of the threads without a pin.
    inherited = () if _all_pinned(domain, pins) else domain.iterchildren("vcpu")
    confining = (each for each in (*inherited, *pins) if each.get("cpuset") is not None)
    return unread.each(_cpuset, confining, HostResource.CPUS)


def _cpuset(element: etree._Element) -> frozenset[int]:
    return numbers(element, "cpuset")


def _all_pinned(domain: etree._Element, pins: Sequence[etree._Element]) -> bool:
    """Return whether the emulator, each vCPU and each I/O thread has a pin. If it is unknown how
    many there are, one may have none.
    """
    if not pins:  # most domains
        return False
    pinned = Counter(pin.tag for pin in pins)
    try:
        return (
            pinned["emulatorpin"] > 0
            and pinned["vcpupin"] >= _number(domain, "vcpu")
            and pinned["iothreadpin"] >= _number(domain, "iothreads")
        )
    except BadDocument:
        return False


def _number(domain: etree._Element, name: str) -> int:
    element = child(domain, name)
    return 0 if element is None else integer(element.text, f"<{name}>", MAX_CPU)


def _bound(domain: etree._Element, unread: Unread) -> Iterator[_Bound]:
    """Yield the guest cells that are bound to exactly one host cell."""
    tuned = child(domain, "numatune")
    if tuned is None:  # most domains
        return
    hosts, sizes = host_cells(domain, unread), page_sizes(domain, unread)
    for number, memory in memories(domain, unread).items():
        host = hosts.get(number, hosts.get(None))
        if host is not None:
            yield _Bound(host=host, memory=memory, pagesize=sizes.get(number, sizes.get(None)))


def _of_cells(domain: etree._Element) -> tuple[HostResource, ...]:
    """Return what is unknown if it is unknown how much memory is bound to which cell."""
    has_pages = domain.find("memoryBacking/hugepages") is not None
    return (HostResource.CELLS, HostResource.PAGES) if has_pages else (HostResource.CELLS,)


def memories(domain: etree._Element, unread: Unread) -> dict[int, int]:
    """Return the memory of each guest cell in bytes; that of cell 0 without cells."""
    cells = domain.findall("cpu/numa/cell")
    if not cells:
        memory = domain.find("memory")
        cells = [] if memory is None else [memory]

    def read(placed: tuple[int, etree._Element]) -> tuple[int, int]:
        place, cell = placed
        number, text = place, cell.text
        if cell.tag == "cell":
            number = integer(cell.get("id", str(place)), "<cell id>", MAX_CPU)
            text = cell.get("memory")
        return number, in_bytes(cell, text, f"memory of guest cell {number}")

    return dict(unread.each(read, enumerate(cells), *_of_cells(domain)))


def host_cells(domain: etree._Element, unread: Unread) -> dict[int | None, int | None]:
    """Return the host cell of each guest cell that is bound to exactly one. The key None means all
    other guest cells.

    The mode is irrelevant: if ``nodeset`` has a single cell, the memory belongs to that cell.
    """

    def read(element: etree._Element) -> tuple[int | None, int | None]:
        number = None
        if element.tag == "memnode":
            number = integer(element.get("cellid"), "<memnode cellid>", MAX_CPU)
        return number, _only(element)

    bound = domain.iterfind("numatune/*")
    elements = (each for each in bound if each.tag in ("memory", "memnode"))
    return dict(unread.each(read, elements, *_of_cells(domain)))


def _only(element: etree._Element) -> int | None:
    if element.get("nodeset") is None:  # libvirt chooses
        return None
    cells = numbers(element, "nodeset")
    return next(iter(cells)) if len(cells) == 1 else None


def page_sizes(domain: etree._Element, unread: Unread) -> dict[int | None, int]:
    """Return the page size (KiB) of each guest cell. The key None means all other guest cells."""

    def read(page: etree._Element) -> dict[int | None, int]:
        size = in_bytes(page, page.get("size"), "<page size>") // BYTES_IN_KIB
        if not size:
            raise BadDocument("<page size> is less than 1 KiB")
        anywhere = page.get("nodeset") is None
        return dict.fromkeys([None] if anywhere else numbers(page, "nodeset"), size)

    sizes: dict[int | None, int] = {}
    pages = domain.iterfind("memoryBacking/hugepages/page")
    for size in unread.each(read, pages, HostResource.PAGES):
        sizes.update(size)
    return sizes


def numbers(element: etree._Element, attribute: str) -> frozenset[int]:
    try:
        return parse_cpu_spec(element.get(attribute, ""))
    except BadCpuSet as error:
        raise BadDocument(f"<{element.tag} {attribute}>: {error}") from error
