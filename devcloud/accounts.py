"""The accounts of the cloud: Nova's rows, Placement's allocations, libvirt's domains and rtagent's
claims, read from where each keeps them.

Nothing of rtagent's or Nova's is imported: what they think of their own data is not asked.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

from devcloud.cloud import Cloud
from devcloud.comparison import Account, Holding
from devcloud.compute import SOCKET, Compute
from devcloud.configs import DEDICATED

_KIB_OF_MB = 1024


def read(cloud: Cloud) -> dict[str, Account]:
    """Return the account of each store, by its name, without what `leaks` names. A host without
    power has no domains, and no claims that can be read.
    """
    hosts = [host for host in cloud.computes if host.is_on]
    accounts: dict[str, Account] = {
        "Nova": _nova(cloud),
        "Placement": _placement(cloud),
        "libvirt": {host.name: dict(_domains(host)) for host in hosts},
    }
    if all(host.program == "rtagent" for host in cloud.computes):
        accounts["rtagent"] = {host.name: dict(_claims(host)) for host in hosts}
    return accounts


#: Consumers of Placement that are migrations of servers which Nova has deleted.
_LEAKED = (
    "SELECT m.uuid FROM nova_cell1.migrations m"
    " JOIN nova_cell1.instances i ON i.uuid = m.instance_uuid WHERE i.deleted != 0"
)


def leaks(cloud: Cloud) -> list[str]:
    """Return a sentence for each allocation that Nova has left, with either compute service: when a
    live migration is interrupted and its server is deleted, what the server had at the source stays
    allocated to the migration. ``nova-manage placement audit --delete`` removes it.
    """
    rows = _rows(
        cloud,
        "a.consumer_id, 'host', p.name",
        "placement.allocations a JOIN placement.resource_providers p"
        f" ON p.id = a.resource_provider_id WHERE a.consumer_id IN ({_LEAKED})",
    )
    leaked = sorted({(row["host"], row["uuid"]) for row in rows})
    return [f"{host}: Nova has left the allocation of migration {uuid}" for host, uuid in leaked]


def _nova(cloud: Cloud) -> Account:
    account: dict[str, dict[str, Holding]] = {host.name: {} for host in cloud.computes}
    rows = _rows(
        cloud,
        "i.uuid, 'host', i.host, 'task', i.task_state, 'flavor', e.flavor,"
        " 'cells', e.numa_topology",
        "nova_cell1.instances i JOIN nova_cell1.instance_extra e ON e.instance_uuid = i.uuid"
        " WHERE i.deleted = 0 AND i.host IS NOT NULL AND i.vm_state != 'shelved_offloaded'",
    )
    for row in rows:
        flavor = json.loads(row["flavor"])["cur"]["nova_object.data"]
        topology = json.loads(row["cells"]) if row["cells"] else None
        cells = topology["nova_object.data"]["cells"] if topology else []
        pins = [cell["nova_object.data"].get("cpu_pinning_raw") or {} for cell in cells]
        account.setdefault(row["host"], {})[row["uuid"]] = Holding(
            vcpus=flavor["vcpus"],
            memory_mb=flavor["memory_mb"],
            disk_gb=flavor["root_gb"] + flavor["ephemeral_gb"],
            # While a server is resized or reverted, Nova writes its host and its CPUs one after the
            # other: the CPUs can be those of the other host.
            cpus=None
            if (row["task"] or "").startswith("resize_")
            else frozenset(cpu for cell in pins for cpu in cell.values()),
        )
    return account


def _placement(cloud: Cloud) -> Account:
    account: dict[str, dict[str, Counter[str]]] = {host.name: {} for host in cloud.computes}
    rows = _rows(
        cloud,
        "a.consumer_id, 'host', p.name, 'class', c.name, 'used', a.used",
        "placement.allocations a JOIN placement.resource_providers p"
        " ON p.id = a.resource_provider_id JOIN placement.resource_classes c"
        f" ON c.id = a.resource_class_id WHERE a.consumer_id NOT IN ({_LEAKED})",
    )
    for row in rows:
        account[row["host"]].setdefault(row["uuid"], Counter())[row["class"]] = row["used"]
    return {
        host: {
            uuid: Holding(
                vcpus=amounts["VCPU"] + amounts["PCPU"],
                memory_mb=amounts["MEMORY_MB"],
                disk_gb=amounts["DISK_GB"],
            )
            for uuid, amounts in consumers.items()
        }
        for host, consumers in account.items()
    }


def _rows(cloud: Cloud, columns: str, source: str) -> list[Any]:
    """Return rows as objects.

    :param columns: the uuid, and then names and columns.
    """
    output = cloud.controller.query(f"SELECT JSON_OBJECT('uuid', {columns}) FROM {source}")
    return [json.loads(line) for line in output.splitlines()]


def _domains(host: Compute) -> Iterator[tuple[str, Holding]]:
    running = host.run("virsh", "-q", "list", "--uuid").split()
    for uuid in host.run("virsh", "-q", "list", "--all", "--uuid").split():
        domain = ElementTree.fromstring(host.run("virsh", "-q", "dumpxml", uuid))
        pins = [
            int(pin.attrib["cpuset"])
            for pin in domain.iterfind("cputune/vcpupin")
            if pin.attrib["cpuset"].isdigit()
        ]
        yield (
            uuid,
            Holding(
                vcpus=int(domain.findtext("vcpu", "0")),
                memory_mb=int(domain.findtext("memory", "0")) // _KIB_OF_MB,
                # One that is shut off has none. It may wait for Nova to remove it.
                cpus=frozenset(pins) & DEDICATED if uuid in running else None,
            ),
        )


def _claims(host: Compute) -> Iterator[tuple[str, Holding]]:
    for claim in get(host, "/claims")["claims"]:
        cells = (claim["numa_topology"] or {"cells": ()})["cells"]
        flavor = claim["flavor"]
        yield (
            claim["owner_id"],
            Holding(
                vcpus=flavor["vcpus"],
                memory_mb=flavor["memory_mb"],
                disk_gb=flavor["root_gb"] + flavor["ephemeral_gb"],
                cpus=frozenset(cpu for cell in cells for cpu in cell["cpu_pinning"].values()),
            ),
        )


class _Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def get(host: Compute, path: str) -> Any:
    """Return a document of rtagent's read API. :raises OSError: it does not answer."""
    connection = _Connection(str(host.path(SOCKET)))
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()
