"""Devices in a guest's document: their cells and slots."""

from __future__ import annotations

from lxml import etree
from msgspec.structs import replace

from rtagent.model.device import STANDARD, AssignedDevice
from tests.support.pci_hosts import GPU_0, GPU_1, GPU_IDS

GPU = AssignedDevice(address=GPU_0, dev_type=STANDARD, request_id="gpu", numa_node=0, **GPU_IDS)
FAR = replace(GPU, address=GPU_1, numa_node=1)


def seats(document: str) -> dict[str, tuple[int, int] | None]:
    """Return guest cell and slot of each device, by the bus of its host address."""
    domain = etree.fromstring(document)
    controllers = {int(c.get("index")): c for c in domain.iterfind("devices/controller")}
    found: dict[str, tuple[int, int] | None] = {}
    for device in domain.iterfind("devices/hostdev"):
        bus = str(device.find("source/address").get("bus"))
        address = device.find("address")
        if address is None:
            found[bus] = None
            continue
        port = controllers[int(address.get("bus"), 16)]
        bridge = controllers[int(port.find("address").get("bus"), 16)]
        node = int(bridge.findtext("target/node"))
        found[bus] = (node, int(port.find("address").get("slot"), 16))
    return found
