"""PCI devices of a lab host, as Linux and as the agent report them."""

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from tests.lab.rack import Served, wait_until

EVERYTHING = {"address": "*:*:*.*"}
#: Address of the physical function of profiles with virtual functions.
PORT = "0000:81:00.0"
#: The alias of flavors.
ALIAS = "thing"

_SYSFS = "/sys/bus/pci/devices/{}/{}"
_KERNEL = """
import json, os, re, sys
def read(name, default):
    try: return open(name).read().strip()
    except OSError: return default
def group(device):
    link = device + "/iommu_group"
    return int(os.path.basename(os.readlink(link))) if os.path.exists(link) else None
there = {}
os.chdir("/sys/bus/pci/devices")
for device in os.listdir("."):
    if re.match("0x06(?!80)", read(device + "/class", "")): continue
    numa = int(read(device + "/numa_node", "-1"))
    virtual = os.path.exists(device + "/physfn")
    maker = int(read(device + "/sriov_totalvfs", "0"))
    there[device] = {
        "vendor_id": read(device + "/vendor", "")[2:],
        "product_id": read(device + "/device", "")[2:],
        "numa_node": numa if numa >= 0 else None,
        "iommu_group": group(device),
        "dev_type": "type-VF" if virtual else "type-PF" if maker else "type-PCI",
    }
print(json.dumps(there))
"""


def kernel(host: Served) -> dict[str, dict[str, Any]]:
    """Return what sysfs reports about every device but bridges, by address."""
    return dict(json.loads(host.output("python3", "-c", _KERNEL)))


def devices(host: Served) -> dict[str, dict[str, Any]]:
    """Return what the agent reports about inventory and held devices, by address."""
    return {device["address"]: device for device in host.read("/pci")["pci"]}


def functions(host: Served, number: int) -> None:
    """Create so many virtual functions."""
    host.output("tee", _SYSFS.format(PORT, "sriov_numvfs"), given=str(number))


def driver(host: Served, address: str) -> str:
    """Return the name of a device's driver."""
    return host.output("readlink", _SYSFS.format(address, "driver")).strip().rsplit("/", 1)[1]


@contextlib.contextmanager
def offering(host: Served, spec: dict[str, str], **alias: str) -> Iterator[None]:
    """Configure the agent with these devices, and with `ALIAS` for those of its kind."""
    named = json.dumps({"name": ALIAS, **spec, **alias})
    aliases = {"alias": named} if alias else {}
    try:
        with host.configured("pci", device_spec=json.dumps(spec), **aliases):
            host.output("systemctl", "reload", "rtagent")
            wait_until(lambda: bool(devices(host)))
            yield
    finally:
        host.output("systemctl", "reload", "rtagent")
