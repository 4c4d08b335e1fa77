"""Build the domain document of a server. Pure."""

from lxml import etree

from rtagent.model.guest import GuestDomain
from rtagent.virt.libvirt import guest
from rtagent.virt.libvirt.document import E, parse, text
from rtagent.virt.libvirt.given_devices import given_devices

#: The machine type without an image property ``hw_machine_type``, where QEMU has it: only on it
#: does a guest see the NUMA node of a device.
_MACHINES = {"x86_64": "q35", "i686": "q35"}

#: The namespace of the element of ``<metadata>`` that names the server and the claim of a domain.
NAMESPACE = "urn:rtagent:server"
_SERVER = f"{{{NAMESPACE}}}server"


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
    return claimed(root, domain)


def claimed(root: etree._Element, domain: GuestDomain) -> str:
    """Return a domain document with a claim, and the names of claim and server, merged into it."""
    _name(root, domain)
    return guest.apply(etree.tostring(root, encoding="unicode"), domain.claim)


def claim_of(document: str) -> str | None:
    """Return the uuid of the claim that a domain document names; None: it names none."""
    element = parse(document).find(f"metadata/{_SERVER}")
    return None if element is None else element.get("claim")


def mdev_names(document: str) -> tuple[str, ...]:
    """Return how the node devices' names begin of the mediated devices that a domain document
    assigns.

    :raises BadDocument: it is unknown which device an element assigns.
    """
    return tuple(f"mdev_{uuid.replace('-', '_')}" for uuid in given_devices(parse(document)).mdevs)


def device_name(document: str) -> str:
    """Return the name in the document of a node device."""
    return text(parse(document), "name")


def _minimal(domain: GuestDomain, virt_type: str, architecture: str) -> etree._Element:
    """Build a document without disks and networks."""
    type_ = E.type("hvm", arch=architecture)
    properties = domain.claim.image.properties
    machine = properties.get("hw_machine_type", _MACHINES.get(architecture))
    if machine is not None:
        type_.set("machine", machine)
    return E.domain(
        E.os(type_), E.features(E.acpi()), E.on_poweroff("destroy"), E.devices(), type=virt_type
    )


def _identify(root: etree._Element, domain: GuestDomain) -> None:
    """Put name, uuid and memory first, instead of the document's own.

    A host has one domain of a name, and tenants choose the names of servers: the name is the uuid.
    """
    memory = E.memory(str(domain.claim.flavor.memory_mb), unit="MiB")
    _put_first(root, E.name(domain.uuid), E.uuid(domain.uuid), memory)
    for element in root.findall("currentMemory"):
        root.remove(element)


def _name(root: etree._Element, domain: GuestDomain) -> None:
    """Put the names of the server and of the claim into title and metadata."""
    metadata = root.find("metadata")
    metadata = E.metadata() if metadata is None else metadata
    for element in metadata.findall(f"{{{NAMESPACE}}}*"):  # libvirt knows one of a namespace
        metadata.remove(element)
    server = etree.SubElement(metadata, _SERVER, nsmap={"rtagent": NAMESPACE})
    server.set("name", domain.name)
    server.set("claim", domain.claim.uuid)
    _put_first(root, E.title(domain.name), metadata)


def _put_first(root: etree._Element, *elements: etree._Element) -> None:
    """Put elements at the beginning, instead of those with their tags."""
    for element in elements:
        for old in root.findall(element.tag):
            root.remove(old)
    for place, element in enumerate(elements):
        root.insert(place, element)
