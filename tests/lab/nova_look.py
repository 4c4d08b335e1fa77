"""What there is on a lab host that nova-compute serves, at one moment."""

import json
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from lab.host import Host
from tests.nova.compute_host import documents, pins_of, pins_of_domain

# One process: the start of each takes long on an emulated host.
_LOOK = """
import json, os, socket, sys
def get(name):
    agent = socket.socket(socket.AF_UNIX)
    agent.connect(sys.argv[1])
    agent.sendall(f"GET /{name} HTTP/1.0\\r\\n\\r\\n".encode())
    return json.loads(agent.makefile("rb").read().split(b"\\r\\n\\r\\n", 1)[1])[name]
def driver(address):
    link = f"/sys/bus/pci/devices/{address}/driver"
    return os.path.basename(os.readlink(link)) if os.path.exists(link) else ""
print(json.dumps({
    "claims": get("claims"),
    "differences": [*get("drift"), *get("orphans")],
    "drivers": {address: driver(address) for address in sys.argv[2:]},
}))
"""


class Look:
    """:ivar drivers: of PCI devices, by address; "": none."""

    def __init__(self, answer: Any, domains: dict[str, ElementTree.Element]) -> None:
        self._claims, self._differences = answer["claims"], answer["differences"]
        self.drivers: dict[str, str] = answer["drivers"]
        self._domains = domains

    def claims(self) -> list[Any]:
        """Return the claims of the node."""
        return list(self._claims)

    def differences(self) -> list[Any]:
        """Return the drift and the orphans of the node."""
        return list(self._differences)

    def domains(self) -> dict[str, list[int]]:
        """Return the host CPUs that the vCPUs of each running domain are pinned to, by uuid."""
        return {uuid: pins_of_domain(each) for uuid, each in self._domains.items()}

    def domain_devices(self) -> dict[str, list[str]]:
        """Return the addresses of the devices of each running domain, by uuid."""
        return {uuid: _addresses(each) for uuid, each in self._domains.items()}

    def held(self, uuid: str) -> list[tuple[list[int], list[str]]]:
        """Return the CPUs and the devices of each claim of a server."""
        own = (each for each in self._claims if each["owner_id"] == uuid)
        return [(pins_of(each), devices_of(each)) for each in own]

    def runs_on(self, uuid: str) -> tuple[list[int], list[str]]:
        """Return the CPUs and the devices that the domain of a server has."""
        return self.domains()[uuid], self.domain_devices()[uuid]


def look(host: Host, socket: str, uri: str, devices: Sequence[str]) -> Look:
    """Look at a host.

    :param socket: of the node's read API. :param uri: of the hypervisor, from this machine.
    :param devices: their addresses.
    :raises CommandFailed: the node is not served.
    """
    answer = host.output("python3", "-I", "-S", "-c", _LOOK, socket, *devices)
    return Look(json.loads(answer), documents(uri))


def devices_of(claim: Any) -> list[str]:
    """Return the addresses of the devices of a claim."""
    return sorted(each["address"] for each in claim["pci"])


def _addresses(domain: ElementTree.Element) -> list[str]:
    found = (each.attrib for each in domain.findall("devices/hostdev/source/address"))
    return sorted(
        "{domain:04x}:{bus:02x}:{slot:02x}.{function:x}".format(
            **{name: int(number, 16) for name, number in each.items()}
        )
        for each in found
    )
