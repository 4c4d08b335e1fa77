"""rtagent-nova-compute with libvirt and QEMU, under Nova's conductor and scheduler.

Placement, RabbitMQ and MariaDB are real, too. There is no image service, because Nova's cache has
the image, and no network service, because the servers have no networks.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import libvirt
import pytest

from tests.nova.cloud import HOST, IMAGE, PATIENCE, Cloud
from tests.servers import Libvirtd, MariaDB, Placement, RabbitMQ
from tests.servers.daemon import wait_until

PINNED = "hw:cpu_policy=dedicated"
#: The only host CPU for pinned servers.
CPU = 1


@pytest.fixture
def cloud(
    tmp_path: Path, rabbitmq: RabbitMQ, mariadb: MariaDB, placement: Placement, libvirtd: Libvirtd
) -> Iterator[Cloud]:
    made = Cloud(tmp_path, rabbitmq, mariadb, placement, libvirtd)
    try:
        made.start()
        yield made
    finally:
        made.close()


def claims(cloud: Cloud) -> dict[str, Any]:
    return {each["owner_id"]: each for each in cloud.api.get("claims")["claims"]}


def domains(libvirtd: Libvirtd) -> dict[str, ElementTree.Element]:
    """The documents of the running domains, by uuid."""
    connection = libvirt.open(libvirtd.uri)
    try:
        running = connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
        return {each.UUIDString(): ElementTree.fromstring(each.XMLDesc()) for each in running}
    finally:
        connection.close()


def settled(cloud: Cloud, name: str) -> Any:
    """Wait until Nova has built a server or failed, and return it."""
    found: list[Any] = []

    def is_settled() -> bool:
        server = cloud.servers().get(name, {"vm_state": "building"})
        found[:] = [server]
        return server["vm_state"] != "building"

    wait_until(is_settled, PATIENCE)
    return found[0]


def compared(cloud: Cloud) -> tuple[list[Any], list[Any]]:
    """The drift and the orphans of the host."""
    return cloud.api.get("drift")["drift"], cloud.api.get("orphans")["orphans"]


@pytest.mark.timeout(1800)
def test_servers_are_built_and_survive_kills_of_nova_compute(
    cloud: Cloud, placement: Placement, libvirtd: Libvirtd
) -> None:
    pinned = cloud.call("build", IMAGE, "pinned", PINNED)
    assert settled(cloud, "pinned")["vm_state"] == "active", str(cloud.servers())
    (cell,) = claims(cloud)[pinned]["numa_topology"]["cells"]
    assert set(cell["cpu_pinning"].values()) == {CPU}
    pins = domains(libvirtd)[pinned].findall("cputune/vcpupin")
    assert [pin.get("cpuset") for pin in pins] == [str(CPU)]
    assert compared(cloud) == ([], [])

    cloud.compute.kill()
    names = [f"plain-{number}" for number in range(3)]
    cloud.compute.start()
    for name in names:
        cloud.call("build", IMAGE, name)
    cloud.compute.kill()  # in the middle of the builds, or before them
    cloud.compute.start()
    cloud.wait_observed()

    assert pinned in domains(libvirtd)
    refused = cloud.call("build", IMAGE, "second", PINNED)
    assert settled(cloud, "second")["host"] is None  # the CPU is not given twice
    assert refused not in claims(cloud)
    last = cloud.call("build", IMAGE, "last")
    assert settled(cloud, "last")["vm_state"] == "active", str(cloud.servers())

    def agrees() -> bool:
        here = {each["uuid"] for each in cloud.servers().values() if each["host"] == HOST}
        return set(claims(cloud)) == here and compared(cloud) == ([], [])

    wait_until(agrees, PATIENCE)
    assert {pinned, last} <= set(domains(libvirtd)) <= set(claims(cloud))
