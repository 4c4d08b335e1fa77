"""Domain documents [formatdomain]."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

from tests.documents.oracle.devices import PERSISTENT, devices
from tests.documents.oracle.values import (
    KIB,
    MIB,
    UNKNOWN,
    Impossible,
    decimal,
    members,
    number,
    size,
    up,
)

#: The host that runs the domains: its CPUs, its cells, KiB of its pages, ordinary ones first, and
#: KiB of its large pages by default. It has as many of each as a domain may use.
ONLINE = frozenset(range(2**15))
CELLS = frozenset(range(8))
PAGES = (4, 2048, 5120, 1048576)
DEFAULT_PAGE = 2048
#: Models of memory devices that have none of the host's memory. The enclave page cache is reserved
#: by the firmware.
ELSEWHERE = (*PERSISTENT, "sgx-epc")


class Memory(NamedTuple):
    """Memory of one kind. :ivar size: returns bytes. :ivar hosts: the cells that are named.
    :ivar confined: it is on no others. :ivar page: KiB of its pages, if they are large."""

    size: Callable[[], int]
    hosts: frozenset[int]
    confined: bool
    page: int | None

    @property
    def cells(self) -> frozenset[int]:
        """The cells on which it counts: large pages count on each one on which they may be, and
        ordinary memory on those that are named, unless these are all."""
        if self.page is not None:
            return self.hosts if self.confined else CELLS
        return frozenset() if self.hosts >= CELLS else self.hosts

    @property
    def unit(self) -> int:
        """The bytes of which it is a multiple."""
        return 1 if self.page is None else self.page * KIB


def facts(domain: Element) -> dict[str, Any]:
    """Return what a document says about the host's resources, by name."""
    return {
        "vcpus": _fact(vcpus, domain),
        "memory_mb": _fact(memory_mb, domain),
        "pcpus": _fact(_pcpus, domain),
        "memory by cell": _fact(_by_cell, domain),
        "pages": _fact(_pages, domain),
        "devices": devices(domain),
        "mem_encryption": _fact(_encryption, domain),
    }


def _fact(read: Callable[..., Any], *arguments: Element) -> Any:
    try:
        return read(*arguments)
    except Impossible:
        return UNKNOWN


def vcpus(domain: Element) -> int:
    """Return the vCPUs that run ["CPU Allocation"]."""
    element = domain.find("vcpu")
    if element is None:
        return 1
    return decimal(element.get("current") or element.text)


# -- CPUs ["CPU Allocation", "CPU Tuning", "IOThreads Allocation"] ------------------------------


def _pcpus(domain: Element) -> set[int]:
    """Return the host CPUs to which some thread is pinned."""
    element = domain.find("vcpu")
    others = None if element is None else element.get("cpuset")
    if element is not None and element.get("placement") == "auto":
        others = None  # "the value of attribute cpuset will be ignored"
    most = 1 if element is None else decimal(element.text)
    threads = {("vcpu", str(n)) for n in range(most)} | {("emulator", None)}
    threads |= {("iothread", n) for n in _iothreads(domain)}
    pins = {
        (kind, pin.get(kind)): pin.get("cpuset")
        for kind in ("vcpu", "emulator", "iothread")
        for pin in domain.iterfind(f"cputune/{kind}pin")
    }
    sets = (pins.get(thread, others) for thread in threads)
    return set().union(*(members(each) for each in sets if each is not None))


def _iothreads(domain: Element) -> set[str]:
    """Return the ids: those that are named, and then the lowest others."""
    named = {each.get("id", "") for each in domain.iterfind("iothreadids/iothread")}
    count = max(decimal(domain.findtext("iothreads") or "0"), len(named))
    free = (str(n) for n in range(1, 2 * count + 1) if str(n) not in named)
    return named | {next(free) for _ in range(count - len(named))}


# -- memory ["Memory Allocation", "Memory Backing", "NUMA Node Tuning", "Memory devices"] -------


def memory_mb(domain: Element) -> int:
    """Return MB of the guest's memory, without what is not memory of the host."""
    return up(_total(domain) - sum(_sizes(domain, *ELSEWHERE)), MIB)


def devices_mb(domain: Element) -> int:
    """Return MB of its memory devices, which its memory includes."""
    return up(sum(_sizes(domain)), MIB)


def _total(domain: Element) -> int:
    memory = domain.find("memory")
    if memory is not None:
        return size(memory)
    cells = domain.findall("cpu/numa/cell")  # "can be omitted" with these
    if not cells:
        raise Impossible("it has no memory")
    return sum(size(cell, "memory") for cell in cells) + sum(_sizes(domain))


def _sizes(domain: Element, *models: str) -> Iterator[int]:
    for device in domain.iterfind("devices/memory"):
        if not models or device.get("model") in models:
            yield size(_found(device, "target/size"))


def _found(element: Element, path: str) -> Element:
    found = element.find(path)
    if found is None:
        raise Impossible(f"<{element.tag}> has no <{path}>")
    return found


def _memory(domain: Element) -> Iterator[Memory]:
    sizes: dict[int, Callable[[], int]] = {
        decimal(cell.get("id", str(place))): partial(size, cell, "memory")
        for place, cell in enumerate(domain.iterfind("cpu/numa/cell"))
    }
    for guest_cell, amount in (sizes or {0: partial(_without_devices, domain)}).items():
        yield Memory(amount, *_hosts(domain, guest_cell), _page(domain, guest_cell))
    for device in domain.iterfind("devices/memory"):
        if device.get("model") not in ELSEWHERE:
            node = device.findtext("target/node")
            cell = None if node is None else decimal(node)
            hosts, confined = _hosts(domain, cell)
            mask, page = device.findtext("source/nodemask"), device.find("source/pagesize")
            yield Memory(
                partial(size, _found(device, "target/size")),
                hosts if mask is None else frozenset(members(mask)),
                confined or (mask is not None and not hosts),
                _page(domain, cell) if page is None else _large(size(page) // KIB),
            )


def _without_devices(domain: Element) -> int:
    return _total(domain) - sum(_sizes(domain))


def _hosts(domain: Element, cell: int | None) -> tuple[frozenset[int], bool]:
    """Return the host cells that are named for a guest cell, and whether its memory is on no
    others. :param cell: None: one without settings of its own."""
    tuned = domain.find(f"numatune/memnode[@cellid='{cell}']")
    if tuned is None:
        tuned = domain.find("numatune/memory")
    if tuned is None or tuned.get("nodeset") is None or tuned.get("placement") == "auto":
        return frozenset(), False
    # Other modes prefer these cells, or spread the memory.
    confined = tuned.get("mode", "strict") in ("strict", "restrictive")
    return frozenset(members(tuned.get("nodeset"))), confined


def _page(domain: Element, cell: int | None) -> int | None:
    """Return KiB of a guest cell's pages; None: ordinary ones."""
    backing = domain.find("memoryBacking/hugepages")
    if backing is None:
        return None
    others: int | None = None if backing.find("page") is not None else DEFAULT_PAGE
    for page in backing.iterfind("page"):
        kib = size(page, "size") // KIB
        if not kib:
            raise Impossible("pages of no size")
        if page.get("nodeset") is None:
            others = kib
        elif cell in members(page.get("nodeset")):
            return _large(kib)
    return _large(others)


def _large(kib: int | None) -> int | None:
    return None if kib == PAGES[0] else kib


def _by_cell(domain: Element) -> dict[int, int]:
    """Return MB by host cell."""
    found = Counter[int]()
    for piece in _memory(domain):
        for cell in piece.cells:
            found[cell] += up(piece.size(), piece.unit) * piece.unit
    return {cell: up(amount, MIB) for cell, amount in found.items()}


def _pages(domain: Element) -> dict[int, dict[int, int]]:
    """Return pages by host cell and KiB."""
    found: dict[int, Counter[int]] = {}
    for piece in _memory(domain):
        if piece.page is not None:
            for cell in piece.cells:
                found.setdefault(cell, Counter())[piece.page] += up(piece.size(), piece.unit)
    return {cell: dict(pool) for cell, pool in found.items()}


# -- encryption ["Launch Security"] ---------------------------------------------------------------


def _encryption(domain: Element) -> str | None:
    """Return the model. Bit 2 of the policy of SEV asks for encrypted state."""
    element = domain.find("launchSecurity")
    kind = None if element is None else element.get("type")
    if element is not None and kind == "sev":
        return "amd-sev-es" if number(element.findtext("policy")) & 4 else "amd-sev"
    return {"sev-snp": "amd-sev-snp", "tdx": "intel-tdx"}.get(kind or "")
