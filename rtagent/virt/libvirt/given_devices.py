"""Parse the host devices that domain documents assign. Pure.

These are all elements of libvirt's schema of domains that give a device of the host to one guest,
where it can be a PCI device, a part of one, or persistent memory. Others name devices of the host
that guests share with it or that no claim has (USB and SCSI devices, a TPM, a render node, a source
of random numbers, block devices).
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from uuid import UUID

from lxml import etree

from rtagent.model.address import LIMITS
from rtagent.model.base import Value
from rtagent.model.domain_usage import HostResource
from rtagent.virt.libvirt.document import BadDocument, HostFacts, Unread, pci_address, prefixed

#: Elements with a ``<source>`` of storage: a disk, the chain of images behind it, the destination
#: of its copy, the data of an image, and the firmware's variables.
_STORAGE = ("disk", "backingStore", "mirror", "dataStore", "nvram")
#: The beginning of the path of a namespace's device. Persistent memory may also be a file.
_NAMESPACE = "/dev/dax"
#: The beginning of the path of a vDPA device.
_VDPA = "/dev/vhost-vdpa"
#: The namespace of QEMU's own arguments, and what is in those with a host device.
_QEMU = "{http://libvirt.org/schemas/domain/qemu/1.0}"
_WORDS = ("vfio-", "nvme://", _VDPA, _NAMESPACE)
#: What is in arguments that concern the memory of the host.
_OF_MEMORY = {
    "mem-path": HostResource.PAGES,
    "hugetlb": HostResource.PAGES,
    "host-nodes": HostResource.CELLS,
}
#: The properties of QEMU's devices that name a host device.
_HOST_PROPERTIES = frozenset({"host", "sysfsdev", "vhostdev"})
#: The names of devices in arguments, by the field of `Given`. The directory of a mediated device
#: can be in that of its parent.
_NAMES: Mapping[str, re.Pattern[str]] = {
    "vdpas": re.compile(rf"{_VDPA}-[0-9]+"),
    "namespaces": re.compile(rf"{_NAMESPACE}[0-9]+\.[0-9]+"),
    "mdevs": re.compile(r"(?<=/)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE),
    "addresses": re.compile(r"\b(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\b", re.IGNORECASE),
}
#: The largest PCI domain of Linux, which numbers virtual buses with 32 bits.
_LAST_DOMAIN = 2**32 - 1


class Given(Value, frozen=True, kw_only=True):
    """The host devices that a domain document assigns.

    :ivar addresses: of PCI devices. :ivar mdevs: uuids of mediated devices.
    :ivar vdpas: paths of the character devices of vDPA devices.
    :ivar interfaces: names of network interfaces of the host that no other guest uses.
    :ivar namespaces: paths of the devices of persistent memory namespaces.
    """

    addresses: frozenset[str] = frozenset()
    mdevs: frozenset[str] = frozenset()
    vdpas: frozenset[str] = frozenset()
    interfaces: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """All of them: no two kinds of names are alike."""
        return self.addresses.union(self.mdevs, self.vdpas, self.interfaces, self.namespaces)

    def on_host(self, host: HostFacts) -> frozenset[str]:
        """Return the addresses of the PCI devices on a host."""
        named = (
            *(host.vdpas.get(path) for path in self.vdpas),
            *(host.interfaces.get(name) for name in self.interfaces),
        )
        return self.addresses.union(address for address in named if address is not None)

    def namespaces_on(self, host: HostFacts) -> frozenset[str]:
        """Return the names of the persistent memory namespaces on a host."""
        listed = host.namespaces or {}
        return frozenset(listed[path] for path in self.namespaces & listed.keys())

    def missing(self, host: HostFacts) -> tuple[str, ...]:
        """Return the paths and names that a host does not list, in order. Persistent memory can be
        of another kind than namespaces, so a path is missing only if these were never listed.
        """
        vdpas, interfaces = self.vdpas - host.vdpas.keys(), self.interfaces - host.interfaces.keys()
        unlisted = self.namespaces if host.namespaces is None else ()
        return (*sorted(vdpas), *sorted(interfaces), *sorted(unlisted))


def given_devices(domain: etree._Element) -> Given:
    """Return the host devices that a domain document assigns.

    :raises BadDocument: it is unknown which device an element assigns.
    """
    unread = Unread()
    given = readable_devices(domain, unread)
    unread.check()
    return given


def readable_devices(domain: etree._Element, unread: Unread) -> Given:
    """Return the host devices that a domain document assigns, as far as its elements say.

    :param unread: what they do not say is added to it.
    """
    elements = unread.each(_named, _elements(domain), HostResource.DEVICES)
    return _given(
        chain(elements, unread.each(_argued, device_arguments(domain), HostResource.DEVICES))
    )


def element_devices(element: etree._Element) -> Given:
    """Return the host devices that a child of ``<devices>`` assigns: a disk also those of the chain
    of its images. :raises BadDocument: it is unknown which.
    """
    return _given(map(_named, _parts(element)))


def device_arguments(domain: etree._Element) -> Iterator[str]:
    """Yield the arguments with which QEMU gets a host device past libvirt."""
    return (value for value in _arguments(domain) if _has_device(value))


def unknown_past_libvirt(domain: etree._Element) -> Iterator[tuple[str, HostResource]]:
    """Yield what of QEMU's own arguments and properties may give it something of the host that no
    other element says, and of which kind that is.
    """
    for value in _arguments(domain):
        for word, kind in _OF_MEMORY.items():
            if word in value and not _has_device(value):
                yield value, kind
    for override in domain.iterchildren(f"{_QEMU}override"):
        for each in override.iter(f"{_QEMU}property"):
            if each.get("name") in _HOST_PROPERTIES:
                yield f"{each.get('name')}={each.get('value')}", HostResource.DEVICES


def _arguments(domain: etree._Element) -> Iterator[str]:
    for line in domain.iterchildren(f"{_QEMU}commandline"):
        for argument in line.iterchildren(f"{_QEMU}arg"):
            yield argument.get("value", "")


def _has_device(argument: str) -> bool:
    return any(word in argument for word in _WORDS)


def pci_sources(domain: etree._Element) -> Iterator[tuple[etree._Element, str]]:
    """Yield the source addresses of the PCI devices that a domain document assigns: the element,
    and the address. :raises BadDocument: one is invalid.
    """
    for element in _elements(domain):
        field, name = _named(element)
        source = element.find("source/address")
        if field == "addresses" and name is not None and source is not None:
            yield source, name


def assigns(element: etree._Element) -> bool:
    """Return whether a child of ``<devices>`` assigns a host device."""
    try:
        return element_devices(element) != _NOTHING
    except BadDocument:
        return True


_NOTHING = Given()
#: The field of `Given` and the name; None: the element assigns no such device.
_Named = tuple[str, str | None]


def _given(named: Iterable[_Named]) -> Given:
    names: dict[str, set[str]] = {}
    for field, name in named:
        if name is not None:
            names.setdefault(field, set()).add(name)
    if not names:  # most domains
        return _NOTHING
    return Given(**{field: frozenset(those) for field, those in names.items()})


def _elements(domain: etree._Element) -> Iterator[etree._Element]:
    """Yield the elements that may assign a host device."""
    for devices in domain.iterchildren("devices"):
        for child in devices.iterchildren(*_TAGS):
            yield from _parts(child)
    for firmware in domain.iterchildren("os"):
        for nvram in firmware.iterchildren("nvram"):
            yield from _parts(nvram)


def _parts(element: etree._Element) -> Iterator[etree._Element]:
    """Yield an element, and those of the chain of a disk's images, if they may assign a device."""
    for part in element.iter(*_STORAGE) if element.tag == "disk" else (element,):
        if _key(part) in _READERS:
            yield part


def _argued(argument: str) -> _Named:
    """Return the device in an argument. :raises BadDocument: it has none."""
    for field, name in _NAMES.items():
        if found := name.search(argument):
            text = found[0].lower()
            return field, f"0000:{text}" if field == "addresses" and len(text) == 7 else text
    raise BadDocument(f"<qemu:arg> names no device of the host: {argument!r}")


def _key(element: etree._Element) -> tuple[str, str]:
    return str(element.tag), element.get("type", "")


def _named(element: etree._Element) -> _Named:
    field, read = _READERS[_key(element)]
    return field, read(element)


def _read_address(element: etree._Element) -> str | None:
    """Return the address of the assigned PCI device; None if no host can assign it by a claim."""
    address = element.find("source/address")
    if address is None:
        raise BadDocument(f"{_where(element)} has no source address")
    if address.get("type", "pci") != "pci":
        return None
    domain = prefixed(address.get("domain", "0"), "domain of a device's address")
    if LIMITS["domain"] < domain <= _LAST_DOMAIN:
        return None  # devices there are never offered
    return pci_address(address, "address of a device")


def _read_mdev(element: etree._Element) -> str:
    uuid = _source(element, "source/address", "uuid")
    try:
        return str(UUID(uuid))
    except ValueError as error:
        raise BadDocument(f"<address uuid> of a mediated device is {uuid!r}") from error


def _read_macvtap(element: etree._Element) -> str | None:
    """Return the interface below a macvtap device. Only in this mode one guest has it alone."""
    source = element.find("source")
    if source is None or source.get("mode") != "passthrough":
        return None
    return _source(element)


def _read_character(element: etree._Element) -> str | None:
    """Return the path of a character device of a container, if it is a vDPA device."""
    path = _source(element, "source/char", "")
    return path if path.startswith(_VDPA) else None


def _read_namespace(element: etree._Element) -> str | None:
    path = (element.findtext("source/path") or "").strip()
    return path if path.startswith(_NAMESPACE) else None


def _source(element: etree._Element, path: str = "source", attribute: str = "dev") -> str:
    """Return an attribute of an element, or its text. :raises BadDocument: it is empty."""
    source = element.find(path)
    name = None if source is None else source.get(attribute) if attribute else source.text
    if name is None or not name.strip():
        raise BadDocument(f"{_where(element)} has no {attribute or path!r} of its source")
    return name.strip()


def _where(element: etree._Element) -> str:
    return f"<{element.tag} type={element.get('type')!r}>"


#: By tag and type: the field of `Given`, and what reads the name.
_READERS: Mapping[tuple[str, str], tuple[str, Callable[[etree._Element], str | None]]] = {
    ("hostdev", "pci"): ("addresses", _read_address),
    ("hostdev", "mdev"): ("mdevs", _read_mdev),
    # An interface that libvirt moves into a container.
    ("hostdev", "net"): ("interfaces", partial(_source, path="source/interface", attribute="")),
    ("hostdev", "misc"): ("vdpas", _read_character),
    ("interface", "hostdev"): ("addresses", _read_address),
    ("interface", "direct"): ("interfaces", _read_macvtap),
    ("interface", "vdpa"): ("vdpas", _source),
    ("memory", ""): ("namespaces", _read_namespace),
    **{(tag, "nvme"): ("addresses", _read_address) for tag in _STORAGE},
    **{(tag, "vhostvdpa"): ("vdpas", _source) for tag in _STORAGE},
}
_TAGS = ("disk", "hostdev", "interface", "memory")
