"""What Tempest does to servers only if it reaches them over the network: ports and volumes."""

from collections.abc import Iterator

import pytest

from tests.openstack.commands import openstack, rtagent, tool, wait_until

HOST = "compute1"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The uuid of a server on `HOST`."""
    place = ("--availability-zone", f"nova:{HOST}", "--network", "shared", "--image", "guest")
    what = ("server", "create", "--wait", "-f", "value", "-c", "id", "--flavor", "nano", *place)
    uuid = openstack(*what, "attached").strip()
    yield uuid
    openstack("server", "delete", "--wait", uuid)


def devices(server: str, element: str) -> int:
    """Return the number of a domain's devices of one kind."""
    return tool("run", HOST, "virsh", "dumpxml", server).count(f"<{element} ")


def test_a_port_is_attached_and_detached_without_drift(server: str):
    before = devices(server, "interface")
    port = openstack("port", "create", "--network", "shared", "-f", "value", "-c", "id", "second")
    openstack("server", "add", "port", server, port.strip())
    wait_until(lambda: devices(server, "interface") == before + 1)
    assert rtagent(HOST, "drift", "list") == []
    openstack("server", "remove", "port", server, port.strip())
    wait_until(lambda: devices(server, "interface") == before)
    assert rtagent(HOST, "drift", "list") == []
    openstack("port", "delete", port.strip())


def test_a_volume_is_attached_and_detached_without_drift(server: str):
    before = devices(server, "disk")
    make = ("volume", "create", "--size", "1", "-f", "value", "-c", "id", "data")
    volume = openstack(*make).strip()
    status = ("volume", "show", "-f", "value", "-c", "status", volume)
    wait_until(lambda: openstack(*status).strip() == "available")
    openstack("server", "add", "volume", server, volume)
    wait_until(lambda: devices(server, "disk") == before + 1)
    assert rtagent(HOST, "drift", "list") == []
    openstack("server", "remove", "volume", server, volume)
    wait_until(lambda: openstack(*status).strip() == "available")
    assert devices(server, "disk") == before
    openstack("volume", "delete", volume)


def test_the_accounts_agree_after_ports_and_volumes(server: str):
    assert "The accounts agree." in tool("accounts")
