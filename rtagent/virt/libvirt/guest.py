"""Build the part of a domain document that enacts a claim, and merge it. Pure."""

from collections.abc import Iterable, Iterator

from lxml import etree

from rtagent.model.assignment import Assignment
from rtagent.model.claim import ATTACH, Claim
from rtagent.model.cpuset import format_cpu_spec
from rtagent.virt.libvirt import guest_devices, guest_numa
from rtagent.virt.libvirt.document import BadDocument, parse
from rtagent.virt.libvirt.given_devices import assigns
from rtagent.virt.libvirt.guest_devices import put_buses
from rtagent.virt.libvirt.guest_numa import (
    has_memory_devices,
    memory_elements,
    namespace_elements,
    namespaces,
    only_cell,
    place_memory,
)
from rtagent.virt.libvirt.launch_security import ENCRYPTION_TYPES, launch_security

#: What a claim determines whole, and what names parts of the host that no claim has (its caches).
#: `apply` removes it, and writes what the claim has. doc/source/user/documents.rst lists everything
#: in libvirt's schema that names a host CPU, cell, page or device.
_OWNED = (
    *("vcpu", "numatune/memory", "numatune/memnode", "cpu/topology"),
    *("cputune/vcpupin", "cputune/emulatorpin", "cputune/vcpusched"),
    *("cputune/cachetune", "cputune/memorytune"),
    *("memoryBacking/hugepages", "memoryBacking/nosharepages", "memoryBacking/locked"),
)
#: What the claim of a guest with persistent memory determines, too.
_OWNED_MEMORY = ("maxMemory", "memory")


def children(claim: Claim) -> tuple[etree._Element, ...]:
    """Return the ``<domain>`` children that enact a claim. For an attach claim, return only its
    devices.
    """
    given = devices(claim)
    alone = () if claim.kind == ATTACH else _own_children(claim)
    if not given:
        return alone
    element = etree.Element("devices")
    element.extend(given)
    return (*alone, element)


def devices(claim: Claim) -> tuple[etree._Element, ...]:
    """Return the children of ``<devices>`` for the claim's PCI devices, then mediated devices, then
    persistent memory."""
    mdevs = (unit for unit in claim.resources if unit.parent_addr)
    return (
        *guest_devices.device_elements(claim.pci),
        *guest_devices.mdev_elements(claim.node_uuid, mdevs),
        *namespace_elements(namespaces(claim.resources)),
    )


def _own_children(claim: Claim) -> tuple[etree._Element, ...]:
    """Return the children for CPUs, cells and pages, for the memory of a guest with persistent
    memory, and for encrypted memory."""
    assigned, encryption = namespaces(claim.resources), claim.mem_encryption
    memory = memory_elements(claim.flavor.memory_mb, assigned) if assigned else ()
    security = () if encryption is None else (launch_security(encryption),)
    return (*memory, *_numa_children(claim), *security)


def _numa_children(claim: Claim) -> tuple[etree._Element, ...]:
    """Return the children for CPUs, cells and pages."""
    assignment = claim.numa_topology or Assignment()
    vcpus = claim.flavor.vcpus
    # Libvirt refuses persistent memory to a guest without cells.
    cells = assignment.cells or not namespaces(claim.resources)
    more = () if cells else (only_cell(vcpus, claim.flavor.memory_mb),)
    parts = {
        "memoryBacking": _memory_backing(claim, assignment),
        "cputune": guest_numa.cputune(assignment),
        "numatune": guest_numa.numatune(assignment),
        "cpu": (*guest_numa.cpu(assignment), *more),
    }
    whole = [guest_numa.vcpu(assignment, vcpus)]
    for tag, inner in parts.items():
        element = etree.Element(tag)
        element.extend(inner)
        whole += [element] if len(element) else []
    return tuple(whole)


def _memory_backing(claim: Claim, assignment: Assignment) -> Iterator[etree._Element]:
    """Yield children of ``<memoryBacking>``. Memory that SEV encrypts is locked: no swap has it."""
    found = tuple(guest_numa.memory_backing(assignment))
    yield from found
    encryption = claim.mem_encryption
    if encryption and encryption.locks_memory and "locked" not in {each.tag for each in found}:
        yield etree.Element("locked")


def xml(claim: Claim) -> str:
    """Return the children as text, for a caller that writes domain documents without `apply`."""
    return "".join(etree.tostring(child, encoding="unicode") for child in children(claim))


def node_devices(claim: Claim) -> tuple[str, ...]:
    """Return documents of the mediated devices to create before the guest is started (libvirt's
    ``virNodeDeviceCreateXML``)."""
    return tuple(
        etree.tostring(guest_devices.mdev_document(claim.node_uuid, unit), encoding="unicode")
        for unit in claim.resources
        if unit.parent_addr
    )


def apply(domain_xml: str | bytes, claim: Claim, attached: Iterable[Claim] = ()) -> str:
    """Merge the claim's children into a whole domain document.

    They replace the document's elements for the same settings. What else names a host CPU, cell,
    page or device is set to the claim's, or removed. Everything else stays. Applying a claim twice
    changes nothing.

    :param attached: the guest's attach claims. Devices of the same types that no claim assigns to
        the guest are removed.
    :raises BadDocument: it is not a domain document.
    """
    domain = parse(domain_xml)
    if domain.tag != "domain":
        raise BadDocument(f"the root element is <{domain.tag}>, not <domain>")
    assignment = claim.numa_topology or Assignment()
    for path in _owned(domain, claim, assignment):
        _clear(domain, path)
    _put_memory(domain, claim)
    for child in _numa_children(claim):
        _put(domain, child)
    _put_iothreads(domain, assignment)
    place_memory(domain, assignment.cells)
    _put_security(domain, claim)
    every = (claim, *attached)
    given = [device for one in every for device in one.pci]
    own = frozenset(device.address for device in given)
    guest_devices.move_devices(domain, claim.pci_replaced.values(), own)
    guest_devices.put_devices(domain, (each for one in every for each in devices(one)), given)
    put_buses(domain, assignment, tuple(guest_devices.near(domain, given)))
    etree.indent(domain)
    return etree.tostring(domain, encoding="unicode")


def _put_memory(domain: etree._Element, claim: Claim) -> None:
    """Replace the sizes of the memory, if the guest has persistent memory, or no longer has it."""
    assigned = namespaces(claim.resources)
    if not assigned and not any(map(assigns, domain.iterfind("devices/memory"))):
        return
    for tag in _OWNED_MEMORY:
        _clear(domain, tag)
    for child in memory_elements(claim.flavor.memory_mb, assigned):
        _put(domain, child)


def _put_security(domain: etree._Element, claim: Claim) -> None:
    """Replace the encryption of the memory. What else the caller says of the same type stays: its
    certificate and session, for example.
    """
    existing, encryption = domain.find("launchSecurity"), claim.mem_encryption
    if existing is not None and (encryption or existing.get("type") in ENCRYPTION_TYPES):
        domain.remove(existing)
    if encryption is None:
        return
    security = launch_security(encryption)
    if existing is not None and existing.get("type") == security.get("type"):
        for tag in ("cbitpos", "reducedPhysBits", "policy"):
            for old in existing.findall(tag):
                existing.remove(old)
        existing.extend(child for child in security if existing.find(child.tag) is None)
        security = existing
    _put(domain, security)


def _owned(domain: etree._Element, claim: Claim, assignment: Assignment) -> Iterator[str]:
    """Yield the paths of what is removed from a document."""
    yield from _OWNED
    if assignment.file_backed or domain.find("memoryBacking/source[@type='file']") is not None:
        yield from guest_numa.FILE
    if not guest_numa.plugs_in(domain, claim.flavor.vcpus):
        yield "vcpus"
    if not assignment.emulator_pcpus:
        yield "cputune/iothreadpin"
    if assignment.cells or namespaces(claim.resources) or not has_memory_devices(domain):
        yield "cpu/numa"


def _put_iothreads(domain: etree._Element, assignment: Assignment) -> None:
    """Pin the I/O threads that have a pin to the emulator's CPUs, as Nova does. Those without a pin
    run on the CPUs of ``<vcpu>``, which are the same."""
    for pin in domain.iterfind("cputune/iothreadpin"):
        pin.set("cpuset", format_cpu_spec(assignment.emulator_pcpus))


def _clear(domain: etree._Element, path: str) -> None:
    for element in domain.findall(path):
        _remove(element)


def _remove(element: etree._Element) -> None:
    """Remove an element, and its parents that mean nothing without it."""
    parent = element.getparent()
    if parent is None:
        return
    parent.remove(element)
    if not len(parent) and not parent.attrib:
        _remove(parent)


def _put(domain: etree._Element, child: etree._Element) -> None:
    existing = domain.find(child.tag)
    if existing is not None and (len(existing) or existing.attrib):
        existing.extend(child)
        return
    if existing is not None:
        domain.remove(existing)
    # libvirt's schema has nothing between these.
    after = next(domain.iterchildren("bootloader", "bootloader_args", "os"), None)
    domain.insert(len(domain) if after is None else domain.index(after), child)
