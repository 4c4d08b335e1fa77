"""Documents of node devices [formatnode]."""

from typing import Any
from xml.etree.ElementTree import Element

from tests.documents.oracle.values import address, decimal, number

ADDRESS = ("domain", "bus", "slot", "function")
#: Facts of a PCI device that have one value.
FIELDS = (
    *("address", "vendor_id", "product_id", "dev_type", "parent_addr", "numa_node"),
    *("iommu_group", "card_serial_number"),
)


def facts(device: Element) -> dict[str, Any] | None:
    """Return what the document says of a device that a guest may be given, or that is a part of
    one; None: it is another kind of device."""
    for capability in device.iterfind("capability"):
        read = {"pci": _pci, "net": _net, "vdpa": _vdpa, "mdev": _mdev}.get(capability.get("type"))
        if read is not None:
            names = {"name": device.findtext("name"), "parent": device.findtext("parent") or ""}
            return names | read(capability)
    return None


def _pci(pci: Element) -> dict[str, Any]:
    inner = {part.get("type"): part for part in pci.iterfind("capability")}
    where = address({name: pci.findtext(name) for name in ADDRESS})
    # The base class of bridges is 06, and its subclass 80 is none of the kinds of bridges (PCI Code
    # and ID Assignment Specification).
    base, sub = divmod(number(pci.findtext("class") or "0") >> 8, 0x100)
    if (base == 6 and sub != 0x80) or {"pci-bridge", "cardbus-bridge"} & inner.keys():
        return {"kind": "BridgeNode", "address": where}
    physical, virtual = inner.get("phys_function"), inner.get("virt_functions")
    kind = "type-PCI"
    if physical is not None:
        kind = "type-VF"
    elif virtual is not None and (len(virtual) or virtual.get("maxCount") != "0"):
        kind = "type-PF"
    parent = None if physical is None else physical.find("address")
    serial = pci.findtext("capability[@type='vpd']/fields[@access='readonly']/serial_number")
    return {
        "kind": "Device",
        "address": where,
        "vendor_id": _id(pci, "vendor"),
        "product_id": _id(pci, "product"),
        "dev_type": kind,
        "parent_addr": None if parent is None else address(parent.attrib),
        "numa_node": _optional(pci, "numa", "node"),
        "iommu_group": _optional(pci, "iommuGroup", "number"),
        "card_serial_number": serial,
        "mdev_types": {
            each.get("id"): (
                each.findtext("name") or "",
                each.findtext("deviceAPI"),
                decimal(each.findtext("availableInstances")),
            )
            for each in pci.iterfind("capability[@type='mdev_types']/type")
        },
    }


def _id(pci: Element, tag: str) -> str:
    element = pci.find(tag)
    return f"{number(None if element is None else element.get('id')):04x}"


def _optional(pci: Element, tag: str, attribute: str) -> int | None:
    element = pci.find(tag)
    written = None if element is None else element.get(attribute)
    return None if written in (None, "-1") else decimal(written)


def _net(net: Element) -> dict[str, Any]:
    return {
        "kind": "NetNode",
        "interface": net.findtext("interface"),
        "mac": (net.findtext("address") or "").lower() or None,
        "features": {feature.get("name") for feature in net.iterfind("feature")},
    }


def _vdpa(vdpa: Element) -> dict[str, Any]:
    return {"kind": "VdpaNode", "chardev": vdpa.findtext("chardev")}


def _mdev(mdev: Element) -> dict[str, Any]:
    kind = mdev.find("type")
    return {
        "kind": "MdevNode",
        "uuid": (mdev.findtext("uuid") or "").lower() or None,
        "type": None if kind is None else kind.get("id"),
    }
