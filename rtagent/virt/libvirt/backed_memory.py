"""Parse the memory of guests: what backs each guest cell and memory device on the host. Pure.

For the meaning of the elements see libvirt's "Domain XML format": memory allocation, memory
backing, NUMA node tuning, memory devices.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import product

from lxml import etree
from msgspec.structs import replace

from rtagent.model.base import Value
from rtagent.model.cpuset import MAX_CPU
from rtagent.model.domain_usage import HostResource
from rtagent.model.units import BYTES_IN_KIB, BYTES_IN_MIB, round_up
from rtagent.virt.libvirt.document import (
    BadDocument,
    HostFacts,
    Unread,
    child,
    in_bytes,
    integer,
    numbers,
)

#: The page size of ``<hugepages/>`` without a size: the default of the host's kernel.
_DEFAULT_SIZE = 0
#: Modes in which all memory comes from the named host cells. In the other modes the kernel takes it
#: from other cells if these have none left.
_CONFINING = frozenset({"strict", "restrictive"})
#: Persistent memory, whose content is in a file or in a namespace of the host.
_PERSISTENT = frozenset({"nvdimm", "virtio-pmem"})
#: Memory that the firmware reserves for SGX, apart from the host's memory.
_ENCLAVES = "sgx-epc"


#: The named host cells, and whether all memory comes from them.
_Binding = tuple[frozenset[int], bool]

_ANYWHERE: _Binding = (frozenset(), False)


class BackedMemory(Value, frozen=True, kw_only=True):
    """The memory of a guest cell or of a memory device.

    :ivar size: bytes. :ivar cells: the host cells that its document names; empty: none.
    :ivar confined: it comes from no other cells.
    :ivar pagesize: KiB, or 0 for the host's default; None: ordinary memory.
    """

    size: int
    cells: frozenset[int] = frozenset()
    confined: bool = False
    pagesize: int | None = None

    @property
    def placed(self) -> bool:
        """Whether it is bound to cells, or has pages of a size."""
        return bool(self.cells) or self.pagesize is not None

    @property
    def has_default_size(self) -> bool:
        """Whether its pages have the host's default size."""
        return self.pagesize == _DEFAULT_SIZE

    def large_pages(self, host: HostFacts) -> tuple[int, ...]:
        """Return the size (KiB) of its pages; empty: ordinary memory. There are several if it has
        the host's default size and that is unknown.
        """
        sizes = host.page_sizes
        if self.pagesize is None or self.pagesize in sizes[:1]:
            return ()  # QEMU takes pages of the smallest size for ordinary memory
        if not self.has_default_size:
            return (self.pagesize,)
        return sizes[1:] if host.hugepage_kib is None else (host.hugepage_kib,)

    def possible_cells(self, host: HostFacts) -> frozenset[int]:
        """Return the host cells that its memory may be in; empty: it is bound to none.

        A cell has few large pages, so they count wherever the kernel may take them. Ordinary memory
        counts in the cells that its document names, unless these are all of several.
        """
        every = host.cell_ids
        if not self.large_pages(host):
            return frozenset() if len(every) > 1 and every <= self.cells else self.cells
        return self.cells if self.confined and self.cells else every or self.cells


class GuestMemory(Value, frozen=True, kw_only=True):
    """:ivar cells: by guest cell; a guest without cells has cell 0. :ivar devices: plugged in."""

    cells: Mapping[int, BackedMemory] = {}
    devices: tuple[BackedMemory, ...] = ()


def is_placed(domain: etree._Element) -> bool:
    """Return whether a document may bind memory to cells or have pages of a size. Most do not."""
    return (
        child(domain, "numatune") is not None
        or child(domain, "memoryBacking") is not None
        or next(_devices(domain), None) is not None
    )


def guest_memory(domain: etree._Element, unread: Unread) -> GuestMemory:
    """Return the memory of a guest that is memory of the host.

    :param unread: what cannot be read is added to it.
    """
    bindings, sizes = _bindings(domain, unread), _page_sizes(domain, unread)

    def read(device: etree._Element) -> BackedMemory:
        return _device(device, bindings, sizes)

    devices = (each for each in _devices(domain) if not _is_elsewhere(each))
    return GuestMemory(
        cells={
            number: _backed(size, bindings, sizes, number)
            for number, size in _sizes(domain, unread).items()
        },
        devices=tuple(unread.each(read, devices, HostResource.CELLS, HostResource.PAGES)),
    )


def excluded_bytes(domain: etree._Element, unread: Unread) -> int:
    """Return the size of the memory devices that have no memory of the host. libvirt counts them
    in ``<memory>``.

    :param unread: an invalid size is added to it. The device then counts as memory.
    """
    return sum(unread.each(_size, filter(_is_elsewhere, _devices(domain))))


def sum_bytes(domain: etree._Element) -> int:
    """Return the memory of all guest cells and memory devices: that of a document without
    ``<memory>``. :raises BadDocument: it has no cells, or a size is invalid.
    """
    cells = domain.findall("cpu/numa/cell")
    if not cells:
        raise BadDocument("<domain> has no <memory>")
    return sum(_cell(placed)[1] for placed in enumerate(cells)) + sum(map(_size, _devices(domain)))


def memory_in_use(
    memory: Iterable[BackedMemory], host: HostFacts
) -> tuple[dict[int, int], dict[int, dict[int, int]]]:
    """Return the MB by host cell, and the pages by host cell and size (KiB).

    What may be in several cells, or of several sizes, counts in each of these: any of them may lack
    that much. It is never more than a cell has.
    """
    certain, possible, ordinary = (
        Counter[tuple[int, int]](),
        Counter[tuple[int, int]](),
        Counter[int](),
    )
    for each in memory:
        sizes, cells = each.large_pages(host), each.possible_cells(host)
        pools = tuple(product(cells, sizes))
        counted = certain if len(pools) == 1 else possible
        for cell, size in pools:
            counted[cell, size] += round_up(each.size, size * BYTES_IN_KIB)
        if not sizes:
            ordinary.update(_bounded(each.size, cells, host))
    for pool, number in possible.items():
        certain[pool] += min(number, max(0, host.pages(*pool) - certain[pool]))
    pages: dict[int, dict[int, int]] = {}
    for (cell, size), number in certain.items():
        if number:
            pages.setdefault(cell, {})[size] = number
            ordinary[cell] += number * size * BYTES_IN_KIB
    return {cell: round_up(size, BYTES_IN_MIB) for cell, size in ordinary.items()}, pages


def _bounded(size: int, cells: frozenset[int], host: HostFacts) -> dict[int, int]:
    """Return ordinary memory by cell, of several cells no more than each has."""
    most = {cell.id: cell.memory_mb * BYTES_IN_MIB for cell in host.cells}
    alone = len(cells) == 1 or not most
    bounded = {cell: size if alone else min(size, most.get(cell, 0)) for cell in cells}
    return {cell: number for cell, number in bounded.items() if number}


def _sizes(domain: etree._Element, unread: Unread) -> dict[int, int]:
    """Return the bytes of each guest cell, without memory devices."""

    def read(memory: etree._Element) -> tuple[int, int]:
        return 0, max(0, in_bytes(memory, memory.text, "<memory>") - plugged)

    cells = domain.findall("cpu/numa/cell")
    if cells:
        return dict(unread.each(_cell, enumerate(cells), *_of_memory(domain)))
    plugged = sum(Unread().each(_size, _devices(domain)))
    return dict(unread.each(read, domain.iterchildren("memory"), *_of_memory(domain)))


def _cell(placed: tuple[int, etree._Element]) -> tuple[int, int]:
    """Return number and bytes of a guest cell. :param placed: its place and its element."""
    place, cell = placed
    number = integer(cell.get("id", str(place)), "<cell id>", MAX_CPU)
    return number, in_bytes(cell, cell.get("memory"), f"memory of guest cell {number}")


def _bindings(domain: etree._Element, unread: Unread) -> dict[int | None, _Binding]:
    """Return the binding of each guest cell. The key None means all other guest cells."""

    def read(element: etree._Element) -> tuple[int | None, _Binding]:
        number = None
        if element.tag == "memnode":
            number = integer(element.get("cellid"), "<memnode cellid>", MAX_CPU)
        if element.get("nodeset") is None or element.get("placement") == "auto":
            return number, _ANYWHERE  # libvirt chooses
        cells = numbers(element.get("nodeset"), f"<{element.tag} nodeset>")
        return number, (cells, element.get("mode", "strict") in _CONFINING)

    tuned = child(domain, "numatune")
    elements = () if tuned is None else tuned.iterchildren("memory", "memnode")
    return dict(unread.each(read, elements, *_of_memory(domain)))


def _page_sizes(domain: etree._Element, unread: Unread) -> dict[int | None, int]:
    """Return the page size (KiB) of each guest cell. The key None means all other guest cells."""

    def read(page: etree._Element) -> dict[int | None, int]:
        size = _in_kib(page, page.get("size"), "<page size>")
        nodes = page.get("nodeset")
        return dict.fromkeys([None] if nodes is None else numbers(nodes, "<page nodeset>"), size)

    hugepages = domain.find("memoryBacking/hugepages")
    if hugepages is None:
        return {}
    pages = hugepages.findall("page")
    sizes: dict[int | None, int] = {} if pages else {None: _DEFAULT_SIZE}
    for size in unread.each(read, pages, HostResource.PAGES):
        sizes.update(size)
    return sizes


def _of_memory(domain: etree._Element) -> Iterator[HostResource]:
    """Yield what is unknown if it is unknown how much memory is bound to which cell."""
    yield HostResource.CELLS
    if domain.find("memoryBacking/hugepages") is not None:
        yield HostResource.PAGES


def _device(
    device: etree._Element, bindings: Mapping[int | None, _Binding], sizes: Mapping[int | None, int]
) -> BackedMemory:
    """Return the memory of a device. It is backed like its guest cell, unless it says otherwise."""
    node = device.findtext("target/node")
    cell = None if node is None else integer(node, "<node> of a memory device", MAX_CPU)
    backed = _backed(_size(device), bindings, sizes, cell)
    nodes, pagesize = device.findtext("source/nodemask"), device.find("source/pagesize")
    if nodes is not None:
        cells = numbers(nodes, "<nodemask> of a memory device")
        confined = backed.confined or not backed.cells  # the mode of its guest cell, or strict
        backed = replace(backed, cells=cells, confined=confined)
    if pagesize is not None:
        size = _in_kib(pagesize, pagesize.text, "<pagesize> of a memory device")
        backed = replace(backed, pagesize=size)
    return backed


def _backed(
    size: int,
    bindings: Mapping[int | None, _Binding],
    sizes: Mapping[int | None, int],
    cell: int | None,
) -> BackedMemory:
    cells, confined = bindings.get(cell, bindings.get(None, _ANYWHERE))
    pagesize = sizes.get(cell, sizes.get(None))
    return BackedMemory(size=size, cells=cells, confined=confined, pagesize=pagesize)


def _devices(domain: etree._Element) -> Iterator[etree._Element]:
    """Yield the memory devices. It is faster than `iterfind`, which parses a path."""
    for devices in domain.iterchildren("devices"):
        yield from devices.iterchildren("memory")


def _size(device: etree._Element) -> int:
    """Return the bytes of a memory device. Those of virtio-mem are its largest size: the host can
    let it grow up to that at any time.
    """
    size = device.find("target/size")
    if size is None:
        raise BadDocument("a memory device has no <size>")
    return in_bytes(size, size.text, "<size> of a memory device")


def _is_elsewhere(device: etree._Element) -> bool:
    """Return whether a memory device has no memory of the host."""
    model = device.get("model")
    if model in _PERSISTENT:
        # Without a file or a namespace it is memory.
        return device.find("source/pagesize") is None and device.find("source/nodemask") is None
    return model == _ENCLAVES


def _in_kib(element: etree._Element, value: str | None, where: str) -> int:
    size = in_bytes(element, value, where) // BYTES_IN_KIB
    if not size:
        raise BadDocument(f"{where} is less than 1 KiB")
    return size
