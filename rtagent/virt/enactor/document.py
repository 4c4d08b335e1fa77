"""Build the domain document of a server. Pure."""

from __future__ import annotations

from lxml import etree
from lxml.builder import E

from rtagent.model.guest_domain import GuestDomain
from rtagent.virt.libvirt import guest
from rtagent.virt.libvirt.document import parse

#: The machine type without an image property ``hw_machine_type``, where QEMU has it: only on it
#: does a guest see the NUMA node of a device.
_MACHINES = {"x86_64": "q35", "i686": "q35"}


def domain_document(domain: GuestDomain, virt_type: str, architecture: str) -> str:
    """Return the whole document: the caller's, or a minimal one, with the claim merged into it.

    :param virt_type: the type of a minimal document, such as ``kvm``.
    :param architecture: of its guest.
    :raises BadDocument: the caller's document is invalid.
    """
    if domain.document is None:
        root = _minimal(domain, virt_type, architecture)
    else:
        root = parse(domain.document)
    _identify(root, domain)
    return guest.apply(etree.tostring(root, encoding="unicode"), domain.claim)


def mdev_uuids(document: str) -> frozenset[str]:
    """Return the uuids of the mediated devices that a domain document assigns."""
    sources = parse(document).iterfind("devices/hostdev[@type='mdev']/source/address")
    return frozenset(each.get("uuid", "").lower() for each in sources)


def _minimal(domain: GuestDomain, virt_type: str, architecture: str) -> etree._Element:
    """Build a document without disks and networks."""
    type_ = E.type("hvm", arch=architecture)
    properties = domain.claim.image.properties
    machine = properties.get("hw_machine_type", _MACHINES.get(architecture))
    if machine is not None:
        type_.set("machine", machine)
    root: etree._Element = E.domain(
        E.os(type_),
        E.features(E.acpi()),
        E.on_poweroff("destroy"),
        E.devices(),
        type=virt_type,
    )
    return root


def _identify(root: etree._Element, domain: GuestDomain) -> None:
    """Put name, uuid and memory first, instead of the document's own."""
    for tag in ("name", "uuid", "memory", "currentMemory"):
        for element in root.findall(tag):
            root.remove(element)
    memory = E.memory(str(domain.claim.flavor.memory_mb), unit="MiB")
    for place, element in enumerate((E.name(domain.name), E.uuid(domain.uuid), memory)):
        root.insert(place, element)
