"""What runs on a host, read from the file of a simulated one, or from libvirt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lxml import etree

from tests.chaos.world.qemu import Qemu

_RUN_STATE = "{http://libvirt.org/schemas/domain/test/1.0}runstate"
_SHUT_OFF = "5"
KIB_IN_MIB = 1024


def domains_of(file: Path) -> list[dict[str, Any]]:
    """Return the domains of a host file, with what they are bound to."""
    found = etree.parse(str(file)).getroot().iterfind("domain")
    return [
        _domain(each, (each.findtext(_RUN_STATE) or "").strip() != _SHUT_OFF, 1) for each in found
    ]


def domains_below(qemu: Qemu) -> list[dict[str, Any]]:
    """Return the domains of a host with QEMU, with what they are bound to."""
    return [_domain(each, active, KIB_IN_MIB) for each, active in qemu.documents()]


def _domain(domain: etree._Element, active: bool, unit: int) -> dict[str, Any]:
    """:param unit: how many units of the document's memory are a MiB."""
    pins = [each.get("cpuset", "") for each in domain.iterfind("cputune/vcpupin")]
    return {
        "uuid": domain.findtext("uuid"),
        "claim": _claim(domain),
        "active": active,
        "vcpus": int(domain.findtext("vcpu") or 0),
        "memory_mb": int(domain.findtext("memory") or 0) // unit,
        "cpusets": pins,
        "devices": [
            _address(each)
            for each in domain.iterfind("devices/hostdev[@type='pci']/source/address")
        ],
        "mdevs": [
            each.get("uuid")
            for each in domain.iterfind("devices/hostdev[@type='mdev']/source/address")
        ],
    }


def _claim(domain: etree._Element) -> str | None:
    """Return the claim that a conductor's domain names; None: it is no conductor's."""
    server = domain.find("metadata/{urn:rtagent:server}server")
    return None if server is None else server.get("claim")


def _address(element: etree._Element) -> str:
    domain, bus, slot, function = (
        int(element.get(name, "0"), 0) for name in ("domain", "bus", "slot", "function")
    )
    return f"{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"
