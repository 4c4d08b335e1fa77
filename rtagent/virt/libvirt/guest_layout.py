"""Parse how a domain document lays its guest out on the host, and Nova's metadata of it. Pure."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import msgspec
from lxml import etree
from msgspec.structs import replace

from rtagent.model.assignment import CpuTopology
from rtagent.model.base import Converter
from rtagent.model.cpuset import MAX_CPU
from rtagent.model.domain_usage import DomainUsage
from rtagent.model.guest import GuestCell, GuestLayout, ServerMetadata
from rtagent.model.units import BYTES_IN_MIB, round_up
from rtagent.virt.libvirt.backed_memory import BackedMemory, GuestMemory, guest_memory
from rtagent.virt.libvirt.document import BadDocument, HostFacts, Unread, integer, numbers, parse
from rtagent.virt.libvirt.domain import DomainFacts, cpuset, default_cpuset, parse_domain, vcpu_pins
from rtagent.virt.libvirt.given_devices import Given, device_arguments, element_devices
from rtagent.virt.libvirt.launch_security import encryption_model

#: The beginning of the namespace. Its last part is a version, which adds elements.
NAMESPACE = "http://openstack.org/xmlns/libvirt/nova/"
_MAX_INT = 2**31 - 1
_metadata = Converter(ServerMetadata)
#: The items of the lists among an image's properties, which Nova writes as Python shows them:
#: ``[CoercedSet({0, 1}), CoercedSet({2})]``, ``[512, 1024]``. The image has a property for each.
_LISTS = {
    "hw_numa_cpus": re.compile(r"\{([^}]*)\}|\(\)"),
    "hw_numa_mem": re.compile(r"([0-9]+)"),
}

#: Fields of a flavor, by the element that has them. Root disk and ephemeral disk are in GB.
_SIZES = {
    "vcpus": "vcpus",
    "memory": "memory_mb",
    "disk": "root_gb",
    "ephemeral": "ephemeral_gb",
    "swap": "swap",
}


def server_metadata(domain: etree._Element) -> ServerMetadata | None:
    """Return what the metadata says; None: the document has none of Nova.

    :raises BadDocument: a value is invalid.
    """
    instance = next(_children(domain.find("metadata"), "instance"), None)
    if instance is None:
        return None
    flavor, image = _child(instance, "flavor"), _child(instance, "image")
    owner, root = _child(instance, "owner"), _child(instance, "root")
    document = {
        "name": _text(_child(instance, "name")),
        "project_id": _uuid(owner, "project"),
        "user_id": _uuid(owner, "user"),
        "flavor": None if flavor is None else _flavor(flavor),
        "image": {"properties": dict(_image_properties(image))},
        "is_volume_backed": flavor is not None and not _is_image(root),
    }
    try:
        return _metadata.convert(document)
    except msgspec.ValidationError as error:
        raise BadDocument(f"Nova's <metadata>: {error}") from error


def _is_image(root: etree._Element | None) -> bool:
    """Return whether a root disk was made of an image. Nova leaves the element of a volume out, or
    it says so, and then it may name the image of the volume.
    """
    return root is not None and root.get("type") == "image" and bool(root.get("uuid"))


def _flavor(element: etree._Element) -> dict[str, Any]:
    sizes = {
        field: integer(_text(_child(element, tag)) or "0", f"<{tag}> of <nova:flavor>", _MAX_INT)
        for tag, field in _SIZES.items()
    }
    return {
        **sizes,
        "name": element.get("name", ""),
        "flavorid": element.get("id", ""),
        "extra_specs": _properties(element, "extraSpecs", "extraSpec"),
    }


def _image_properties(image: etree._Element | None) -> Iterator[tuple[str, str]]:
    for name, value in _properties(image, "properties", "property").items():
        if name in _LISTS:
            items = enumerate(_LISTS[name].findall(value))
            yield from ((f"{name}.{number}", item.replace(" ", "")) for number, item in items)
        else:
            yield name, value


def _properties(element: etree._Element | None, list_: str, item: str) -> dict[str, str]:
    """Return the names and the texts of the items of a list."""
    return {each.get("name", ""): _text(each) for each in _children(_child(element, list_), item)}


def _uuid(owner: etree._Element | None, tag: str) -> str | None:
    found = _child(owner, tag)
    return None if found is None else found.get("uuid")


def _text(element: etree._Element | None) -> str:
    return "" if element is None else (element.text or "").strip()


def _child(parent: etree._Element | None, name: str) -> etree._Element | None:
    return next(_children(parent, name), None)


def _children(parent: etree._Element | None, name: str) -> Iterator[etree._Element]:
    """Yield the children of that name in Nova's namespace, of any version."""
    for each in () if parent is None else parent:
        if isinstance(each.tag, str):
            tag = etree.QName(each)
            if tag.localname == name and (tag.namespace or "").startswith(NAMESPACE):
                yield each


def parse_layout(document: str, usage: DomainUsage, host: HostFacts) -> GuestLayout:
    """Return the layout of a domain. A document that is invalid makes one with a `problem`.

    :param usage: what is known of the domain without its document.
    """
    facts = parse_domain(document)
    if facts.problems:
        problem = f"it is unknown what it uses: {facts.problems[0]}"
        return GuestLayout(usage=usage, problem=problem)
    try:
        return _layout(parse(document), facts, usage, host)
    except BadDocument as error:
        return GuestLayout(usage=usage, problem=str(error))


def _layout(
    domain: etree._Element, facts: DomainFacts, usage: DomainUsage, host: HostFacts
) -> GuestLayout:
    assert facts.vcpus is not None and facts.memory_mb is not None, "there is no problem"
    unread = Unread()
    memory = guest_memory(domain, unread)
    unread.check()
    occupancy = facts.confinement.occupancy(host)
    mdevs = {each: host.mdevs[each] for each in occupancy.mdevs if each in host.mdevs}
    parents = frozenset(mdev.parent_addr for mdev in mdevs.values())
    realtime, priority = _realtime(domain)
    emulator = _emulator(domain)
    return GuestLayout(
        usage=replace(
            usage,
            vcpus=facts.vcpus,
            memory_mb=facts.memory_mb,
            occupancy=replace(occupancy, mdev_parents=parents),
        ),
        problem=_problem(domain, facts.vcpus)
        or _memory_problem(memory, host)
        or _device_problem(facts.confinement.given, host),
        pins={vcpu: cpus for vcpu, cpus in vcpu_pins(domain).items() if host.confines(cpus)},
        emulator=emulator if host.confines(emulator) else frozenset(),
        cells=tuple(_cells(domain, facts, memory.cells, host)),
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
    if len({each.get("priority") for each in _schedulers(domain)}) > 1:
        return "its realtime vCPUs have different priorities"
    if next(device_arguments(domain), None) is not None:
        return "<qemu:commandline> gives it a device of the host: use an element of <devices>"
    security = domain.find("launchSecurity")
    if security is not None and encryption_model(domain) is None:
        return f"its memory is encrypted by {security.get('type')}, which no claim has"
    topology = domain.find("cpu/topology")
    levels = ("dies", "clusters")
    if topology is not None and any(topology.get(each, "1") != "1" for each in levels):
        return "its CPU topology has dies or clusters"
    return ""


def _memory_problem(memory: GuestMemory, host: HostFacts) -> str:
    """Return what no claim describes of a guest's memory; "": there is nothing."""
    if any(device.placed for device in memory.devices):
        return "a memory device is plugged in, whose pages or host cells no claim has: unplug it"
    defaults = (cell for cell in memory.cells.values() if cell.has_default_size)
    if any(len(cell.large_pages(host)) != 1 for cell in defaults):
        return "its <hugepages> has no <page size=...>: name the size of its pages"
    return ""


def _device_problem(given: Given, host: HostFacts) -> str:
    for name in sorted(host.of_no_pci_device(given.mdevs, given.vdpas)):
        return f"its device {name} is of no PCI device, and no claim has such a one"
    missing = given.missing(host)
    return f"it is unknown what it uses: no device of the host has {missing[0]}" if missing else ""


def _emulator(domain: etree._Element) -> frozenset[int]:
    pin = domain.find("cputune/emulatorpin")
    return default_cpuset(domain) if pin is None else cpuset(pin)


def _cells(
    domain: etree._Element, facts: DomainFacts, memory: Mapping[int, BackedMemory], host: HostFacts
) -> Iterator[GuestCell]:
    """Yield the guest cells, in order. Persistent memory is in none of them."""
    vcpus = dict(_cell_vcpus(domain))
    for number, cell in sorted(memory.items()):
        yield GuestCell(
            vcpus=vcpus[number] if vcpus else frozenset(range(facts.vcpus or 0)),
            memory_mb=round_up(cell.size, BYTES_IN_MIB) if vcpus else facts.memory_mb or 0,
            host=_only(cell.possible_cells(host)),
            pagesize=_only(cell.large_pages(host)),
        )


def _only(numbers: Collection[int]) -> int | None:
    return next(iter(numbers)) if len(numbers) == 1 else None


def _cell_vcpus(domain: etree._Element) -> Iterator[tuple[int, frozenset[int]]]:
    for place, cell in enumerate(domain.iterfind("cpu/numa/cell")):
        number = integer(cell.get("id", str(place)), "<cell id>", MAX_CPU)
        yield number, numbers(cell.get("cpus"), "<cell cpus>")


def _ports(domain: etree._Element, host: HostFacts) -> Iterator[str]:
    """Yield the addresses of the PCI devices among the network interfaces."""
    for interface in domain.iterfind("devices/interface"):
        yield from element_devices(interface).on_host(host)


def _schedulers(domain: etree._Element) -> list[etree._Element]:
    found = domain.iterfind("cputune/vcpusched")
    return [each for each in found if each.get("scheduler") in ("fifo", "rr")]


def _realtime(domain: etree._Element) -> tuple[frozenset[int], int]:
    """Return the vCPUs with the realtime scheduler, and their priority."""
    found = _schedulers(domain)
    if not found:
        return frozenset(), 1
    vcpus = (numbers(each.get("vcpus"), "<vcpusched vcpus>") for each in found)
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
