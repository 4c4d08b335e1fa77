"""Messages to the listeners of udevd, sent in its place; libvirtd listens even without udevd."""

import socket
import struct
from pathlib import Path

#: The multicast group on which udevd announces devices after it has processed them.
GROUP = 2
#: The prefix and the magic number of a message (libudev's ``udev_monitor_netlink_header``).
PREFIX, MAGIC = b"libudev\0", 0xFEEDCAFE
_HEADER = struct.Struct("=8sIIIIIIII")
#: The netlink protocol (Linux, ``NETLINK_KOBJECT_UEVENT``).
_UEVENT = 15
_SYS = Path("/sys")


def announce(action: str, address: str) -> None:
    """Announce that a PCI device of this machine was added, changed or removed; change nothing.

    :param action: ``add``, ``change`` or ``remove``. :param address: like 0000:00:01.0.
    """
    device = (_SYS / "bus/pci/devices" / address).resolve()
    properties = {
        "ACTION": action,
        "DEVPATH": "/" + str(device.relative_to(_SYS)),
        "SUBSYSTEM": "pci",
        "SEQNUM": "1",
        "USEC_INITIALIZED": "1",
    }
    lines = (device / "uevent").read_text().splitlines()
    properties |= dict(line.split("=", 1) for line in lines if "=" in line)
    _send(properties)


def _send(properties: dict[str, str]) -> None:
    body = b"".join(f"{key}={value}\0".encode() for key, value in properties.items())
    size, subsystem = _HEADER.size, _hash(properties["SUBSYSTEM"].encode())
    header = _HEADER.pack(
        PREFIX, socket.htonl(MAGIC), size, size, len(body), socket.htonl(subsystem), 0, 0, 0
    )
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _UEVENT) as bus:
        bus.bind((0, 0))
        bus.sendto(header + body, (0, GROUP))


def _hash(name: bytes) -> int:
    """MurmurHash2 with seed 0, by which listeners filter messages for one subsystem."""
    prime, mask = 0x5BD1E995, 0xFFFFFFFF
    value, whole = len(name), len(name) // 4 * 4
    for (word,) in struct.iter_unpack("<I", name[:whole]):
        mixed = word * prime & mask
        value = (value * prime & mask) ^ ((mixed ^ mixed >> 24) * prime & mask)
    rest = name[whole:]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * prime & mask
    value = (value ^ value >> 13) * prime & mask
    return value ^ value >> 15
