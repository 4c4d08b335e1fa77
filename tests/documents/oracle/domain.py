"""Domain documents [formatdomain]."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

from tests.documents.oracle.devices import FILES, devices
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

#: The host that runs the domains: its CPUs and cells, and KiB of its huge pages by default.
ONLINE = frozenset(range(2**15))
CELLS = frozenset(range(8))
DEFAULT_PAGE = 2048


class Memory(NamedTuple):
    """Memory of one kind. :ivar size: returns bytes. :ivar hosts: the cells on which it may be;
    None: any. :ivar page: KiB of its pages, if they are huge."""

    size: Callable[[], int]
    hosts: frozenset[int] | None
    page: int | None


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
    """Return MB of the guest's memory, without files."""
    return up(_total(domain) - sum(_sizes(domain, *FILES)), MIB)


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
    for cell, amount in (sizes or {0: partial(_without_devices, domain)}).items():
        yield Memory(amount, _hosts(domain, cell), _page(domain, cell))
    for device in domain.iterfind("devices/memory"):
        if device.get("model") in ("dimm", "virtio-mem"):
            cell = decimal(device.findtext("target/node") or "0")
            mask, page = device.findtext("source/nodemask"), device.find("source/pagesize")
            yield Memory(
                partial(size, _found(device, "target/size")),
                frozenset(members(mask)) if mask else _hosts(domain, cell),
                _page(domain, cell) if page is None else size(page) // KIB,
            )


def _without_devices(domain: Element) -> int:
    return _total(domain) - sum(_sizes(domain))


def _hosts(domain: Element, cell: int) -> frozenset[int] | None:
    """Return the host cells that a guest cell's memory may be on."""
    tuned = domain.find(f"numatune/memnode[@cellid='{cell}']")
    if tuned is None:
        tuned = domain.find("numatune/memory")
    if tuned is None or tuned.get("nodeset") is None or tuned.get("placement") == "auto":
        return None
    return frozenset(members(tuned.get("nodeset")))


def _page(domain: Element, cell: int) -> int | None:
    """Return KiB of a guest cell's pages; None: those that any memory has."""
    backing = domain.find("memoryBacking/hugepages")
    if backing is None:
        return None
    others = None if backing.find("page") is not None else DEFAULT_PAGE
    for page in backing.iterfind("page"):
        kib = size(page, "size") // KIB
        if not kib:
            raise Impossible("pages of no size")
        if page.get("nodeset") is None:
            others = kib
        elif cell in members(page.get("nodeset")):
            return kib
    return others


def _by_cell(domain: Element) -> dict[int, int]:
    """Return MB by host cell. Memory that may be on several cells may be on each of them."""
    found = Counter[int]()
    for piece in _memory(domain):
        for cell in piece.hosts or ():
            found[cell] += piece.size()
    return {cell: up(amount, MIB) for cell, amount in found.items()}


def _pages(domain: Element) -> dict[int, dict[int, int]]:
    """Return pages by host cell and KiB."""
    found: dict[int, Counter[int]] = {}
    for piece in _memory(domain):
        if piece.page is not None:
            for cell in CELLS if piece.hosts is None else piece.hosts:
                pool = found.setdefault(cell, Counter())
                pool[piece.page] += up(piece.size(), piece.page * KIB)
    return {cell: dict(pool) for cell, pool in found.items()}


# -- encryption ["Launch Security"] ---------------------------------------------------------------


def _encryption(domain: Element) -> str | None:
    """Return the model. Bit 2 of the policy asks for encrypted state."""
    element = domain.find("launchSecurity[@type='sev']")
    if element is None:
        return None
    policy = number(element.findtext("policy"))
    return "amd-sev-es" if policy & 4 else "amd-sev"
