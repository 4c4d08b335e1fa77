"""A difference that is planted in a store of the cloud is found, and named."""

from collections.abc import Iterator

import pytest

from tests.openstack.commands import openstack, sql, tool

#: A domain that no store but libvirt knows.
STRAY = """
<domain type='qemu'><name>stray</name><uuid>00000000-0000-0000-0000-00000000000a</uuid>
<memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type arch='x86_64'>hvm</type></os></domain>
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The uuid of a server with a CPU of its own on compute1."""
    place = ("--availability-zone", "nova:compute1", "--network", "shared", "--image", "guest")
    what = ("server", "create", "--wait", "-f", "value", "-c", "id", "--flavor", "pinned", *place)
    uuid = openstack(*what, "planted").strip()
    yield uuid
    openstack("server", "delete", "--wait", uuid)


def test_the_accounts_agree_without_a_planted_difference(server: str):
    assert "compute1: servers in Nova 1, Placement 1, libvirt 1, rtagent 1" in tool("accounts")


def test_another_flavor_in_novas_rows_is_found(server: str):
    change = (
        "UPDATE nova_cell1.instance_extra SET flavor = REPLACE(flavor, '\"memory_mb\": {}',"
        " '\"memory_mb\": {}') WHERE instance_uuid = '{}'"
    )
    sql(change.format(64, 65, server))
    found = tool("accounts", code=1)
    sql(change.format(65, 64, server))
    assert f"compute1: {server}: memory_mb: 65 in Nova, 64 in Placement" in found


def test_an_allocation_of_nobody_in_placement_is_found(server: str):
    change = "UPDATE placement.allocations SET consumer_id = '{}' WHERE consumer_id = '{}'"
    other = server[:-1] + ("0" if server[-1] != "0" else "1")
    sql(change.format(other, server))
    found = tool("accounts", code=1)
    sql(change.format(server, other))
    assert f"compute1: {other} is in Placement, and not in Nova and libvirt and rtagent" in found


def test_a_domain_of_nobody_is_found(server: str):
    define = f'echo "{STRAY}" >/run/stray.xml; virsh -q define /run/stray.xml'
    tool("run", "compute1", "sh", "-c", define)
    found = tool("accounts", code=1)
    tool("run", "compute1", "virsh", "-q", "undefine", "stray")
    assert "is in libvirt, and not in Nova and Placement and rtagent" in found
