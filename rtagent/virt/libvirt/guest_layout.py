"""Parse how a domain document lays its guest out on the host. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lxml import etree
from msgspec.structs import replace

from rtagent.model.assignment import CpuTopology
from rtagent.model.base import Value
from rtagent.model.cpuset import MAX_CPU
from rtagent.model.device import Mdev
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.guest_layout import GuestCell, GuestLayout
from rtagent.model.units import BYTES_IN_MIB, round_up
from rtagent.virt.libvirt.confinement import host_cells, memories, numbers, page_sizes
from rtagent.virt.libvirt.document import BadDocument, integer, parse
from rtagent.virt.libvirt.domain import DomainFacts, parse_domain
from rtagent.virt.libvirt.guest_devices import source
from rtagent.virt.libvirt.server_metadata import server_metadata
from rtagent.virt.libvirt.unread import Unread


class HostNames(Value, frozen=True, kw_only=True):
    """What the host says about names in a domain document, as of the last observation.

    :ivar online: the host's CPUs. :ivar vdpas: addresses of vDPA devices, by path.
    :ivar namespaces: names of persistent memory namespaces, by path.
    :ivar mdevs: mediated devices, by uuid.
    """

    online: frozenset[int]
    vdpas: Mapping[str, str] = {}
    namespaces: Mapping[str, str] = {}
    mdevs: Mapping[str, Mdev] = {}


def unreadable(uuid: str, name: str, active: bool, problem: str) -> GuestLayout:
    """Return the layout of a domain whose document cannot be read."""
    usage = DomainUsage(domain_uuid=uuid, name=name, active=active, vcpus=0, memory_mb=0)
    return GuestLayout(usage=usage, problem=problem)


def parse_layout(document: str, uuid: str, name: str, active: bool, host: HostNames) -> GuestLayout:
    """Return the layout of a domain. A document that is invalid makes one with a `problem`."""
    facts = parse_domain(document)
    if facts.problems:
        problem = f"it is unknown what it uses: {facts.problems[0]}"
        return unreadable(uuid, name, active, problem)
    try:
        return _layout(parse(document), facts, uuid, name, active, host)
    except BadDocument as error:
        return unreadable(uuid, name, active, str(error))


def _layout(
    domain: etree._Element,
    facts: DomainFacts,
    uuid: str,
    name: str,
    active: bool,
    host: HostNames,
) -> GuestLayout:
    assert facts.vcpus is not None and facts.memory_mb is not None, "there is no problem"
    occupancy = facts.confinement.occupancy(host.online, host.vdpas, host.namespaces)
    mdevs = {each: host.mdevs[each] for each in occupancy.mdevs if each in host.mdevs}
    parents = frozenset(mdev.parent_addr for mdev in mdevs.values())
    realtime, priority = _realtime(domain)
    return GuestLayout(
        usage=DomainUsage(
            domain_uuid=uuid,
            name=name,
            active=active,
            vcpus=facts.vcpus,
            memory_mb=facts.memory_mb,
            occupancy=replace(occupancy, mdev_parents=parents),
        ),
        problem=_problem(domain, facts.vcpus),
        pins=_confined(_pins(domain, facts.vcpus), host.online),
        emulator=_confined({0: _emulator(domain)}, host.online).get(0, frozenset()),
        cells=tuple(_cells(domain, facts.vcpus, facts.memory_mb)),
        mdevs=mdevs,
        ports=frozenset(_ports(domain, host)),
        realtime=realtime,
        realtime_priority=priority,
        cpu_topology=_cpu_topology(domain),
        locked_memory=domain.find("memoryBacking/locked") is not None,
        file_backed=domain.find("memoryBacking/source[@type='file']") is not None,
        metadata=server_metadata(domain),
    )


def _problem(domain: etree._Element, vcpus: int) -> str:
    """Return the first thing in a document that no claim describes; "": there is none."""
    vcpu = domain.find("vcpu")
    if vcpu is not None and integer(vcpu.text, "<vcpu>", MAX_CPU) != vcpus:
        return f"{vcpus} of its {vcpu.text} vCPUs are plugged in, and a claim has all of them"
    pages = domain.find("memoryBacking/hugepages")
    if pages is not None and pages.find("page") is None:
        return "its <hugepages> has no <page size=...>: name the size of its pages"
    if len({each.get("priority") for each in _schedulers(domain)}) > 1:
        return "its realtime vCPUs have different priorities"
    topology = domain.find("cpu/topology")
    levels = ("dies", "clusters")
    if topology is not None and any(topology.get(each, "1") != "1" for each in levels):
        return "its CPU topology has dies or clusters"
    return ""


def _pins(domain: etree._Element, vcpus: int) -> dict[int, frozenset[int]]:
    """Return the host CPUs of every vCPU; empty: any."""
    everywhere = _cpuset(domain.find("vcpu"))
    pins = dict.fromkeys(range(vcpus), everywhere)
    for pin in domain.iterfind("cputune/vcpupin"):
        number = integer(pin.get("vcpu"), "<vcpupin vcpu>", MAX_CPU)
        if number in pins:
            pins[number] = _cpuset(pin)
    return pins


def _emulator(domain: etree._Element) -> frozenset[int]:
    pin = domain.find("cputune/emulatorpin")
    return _cpuset(domain.find("vcpu") if pin is None else pin)


def _cpuset(element: etree._Element | None) -> frozenset[int]:
    if element is None or element.get("cpuset") is None:
        return frozenset()
    return numbers(element, "cpuset")


def _confined(
    pins: Mapping[int, frozenset[int]], online: frozenset[int]
) -> dict[int, frozenset[int]]:
    """Return the sets that do not contain every CPU of the host."""
    return {key: cpus for key, cpus in pins.items() if cpus and (not online or online - cpus)}


def _cells(domain: etree._Element, vcpus: int, memory_mb: int) -> Iterator[GuestCell]:
    """Yield the guest cells, in order. Persistent memory is in none of them."""
    unread = Unread()
    hosts, sizes = host_cells(domain, unread), page_sizes(domain, unread)
    cells = dict(_cell_vcpus(domain))
    for number, size in sorted(memories(domain, unread).items()):
        yield GuestCell(
            vcpus=cells[number] if cells else frozenset(range(vcpus)),
            memory_mb=round_up(size, BYTES_IN_MIB) if cells else memory_mb,
            host=hosts.get(number, hosts.get(None)),
            pagesize=sizes.get(number, sizes.get(None)),
        )
    unread.check()


def _cell_vcpus(domain: etree._Element) -> Iterator[tuple[int, frozenset[int]]]:
    for place, cell in enumerate(domain.iterfind("cpu/numa/cell")):
        number = integer(cell.get("id", str(place)), "<cell id>", MAX_CPU)
        cpus = numbers(cell, "cpus") if cell.get("cpus") is not None else frozenset[int]()
        yield number, cpus


def _ports(domain: etree._Element, host: HostNames) -> Iterator[str]:
    """Yield the addresses of the PCI devices among the network interfaces."""
    for interface in domain.iterfind("devices/interface"):
        if interface.get("type") in ("hostdev", "vdpa"):
            for name in source(interface)[1:]:
                yield host.vdpas.get(str(name), str(name))


def _schedulers(domain: etree._Element) -> list[etree._Element]:
    found = domain.iterfind("cputune/vcpusched")
    return [each for each in found if each.get("scheduler") in ("fifo", "rr")]


def _realtime(domain: etree._Element) -> tuple[frozenset[int], int]:
    """Return the vCPUs with the realtime scheduler, and their priority."""
    found = _schedulers(domain)
    if not found:
        return frozenset(), 1
    vcpus = (numbers(each, "vcpus") for each in found)
    return frozenset[int]().union(*vcpus), integer(found[0].get("priority"), "<vcpusched>", 99)


def _cpu_topology(domain: etree._Element) -> CpuTopology | None:
    topology = domain.find("cpu/topology")
    if topology is None:
        return None
    sizes = {
        name: integer(topology.get(name, "1"), f"<topology {name}>", MAX_CPU)
        for name in ("sockets", "cores", "threads")
    }
    return CpuTopology(**sizes)
