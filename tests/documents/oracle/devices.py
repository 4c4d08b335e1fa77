"""Devices of the host in domain documents [formatdomain]."""

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from tests.documents.oracle.values import UNKNOWN, Impossible, address

#: Models of memory that are files or namespaces of the host, and not its memory.
PERSISTENT = ("nvdimm", "virtio-pmem")


def devices(domain: Element) -> set[str]:
    """Return what names each device: an address, a uuid, a path, or an interface of the host."""
    return {*_hostdevs(domain), *_interfaces(domain), *_disks(domain), *_namespaces(domain)}


def _hostdevs(domain: Element) -> Iterator[str]:
    """["Host device assignment"]"""
    for device in domain.iterfind("devices/hostdev"):
        kind = device.get("type")
        if kind == "pci":
            yield _address(device)
        elif kind == "mdev":
            yield _attribute(device, "source/address", "uuid").lower()
        elif (device.get("mode"), kind) == ("capabilities", "net"):
            yield device.findtext("source/interface") or UNKNOWN


def _interfaces(domain: Element) -> Iterator[str]:
    """["PCI Passthrough", "vDPA devices", "Direct attachment to physical interface"]"""
    for interface in domain.iterfind("devices/interface"):
        kind, source = interface.get("type"), interface.find("source")
        if kind == "hostdev":
            yield _address(interface)
        elif kind == "vdpa":
            yield _attribute(interface, "source", "dev")
        elif kind == "direct" and source is not None and source.get("mode") == "passthrough":
            yield source.get("dev") or UNKNOWN


def _disks(domain: Element) -> Iterator[str]:
    """["Hard drives, floppy disks, CDROMs"]"""
    for disk in (*domain.iterfind("devices/disk"), *domain.iterfind("os/nvram")):
        for image in disk.iter():  # also a backing store, or the target of a copy
            if image.get("type") == "nvme":
                yield _address(image)
            elif image.get("type") == "vhostvdpa":
                yield _attribute(image, "source", "dev")


def _namespaces(domain: Element) -> Iterator[str]:
    """["Memory devices"]"""
    for memory in domain.iterfind("devices/memory"):
        path = (memory.findtext("source/path") or "").strip()
        if memory.get("model") in PERSISTENT and path.startswith("/dev/dax"):
            yield path


def _address(device: Element) -> str:
    written = device.find("source/address")
    try:
        return UNKNOWN if written is None else address(written.attrib)
    except Impossible:
        return UNKNOWN


def _attribute(device: Element, path: str, name: str) -> str:
    element = device.find(path)
    return (None if element is None else element.get(name)) or UNKNOWN
