"""The accounts of a cloud are compared server by server."""

from __future__ import annotations

from collections.abc import Mapping

from devcloud.comparison import Account, Holding, differences, doubles

PINNED = Holding(vcpus=1, memory_mb=64, disk_gb=1, cpus=frozenset({1}))
STORES = ("Nova", "Placement", "libvirt", "rtagent")


def accounts(**changed: Mapping[str, Holding]) -> dict[str, Account]:
    """Return the accounts of a host with one server, but for the stores that are named."""
    return {name: {"one": changed.get(name, {"a": PINNED})} for name in STORES}


def test_equal_accounts_do_not_differ():
    assert differences(accounts()) == []


def test_what_a_store_does_not_say_is_not_compared():
    assert differences(accounts(Placement={"a": Holding(vcpus=1)})) == []


def test_a_server_that_one_store_does_not_have_is_found():
    assert differences(accounts(rtagent={})) == [
        "one: a is in Nova and Placement and libvirt, and not in rtagent"
    ]


def test_a_server_that_one_store_alone_has_is_found():
    assert differences(accounts(rtagent={"a": PINNED, "b": Holding()})) == [
        "one: b is in rtagent, and not in Nova and Placement and libvirt"
    ]


def test_another_amount_is_found():
    other = {"a": Holding(vcpus=1, memory_mb=96, disk_gb=1, cpus=frozenset({2}))}
    assert differences(accounts(rtagent=other)) == [
        "one: a: memory_mb: 64 in Nova, 64 in Placement, 64 in libvirt, 96 in rtagent",
        "one: a: cpus: [1] in Nova, [1] in Placement, [1] in libvirt, [2] in rtagent",
    ]


def test_a_cpu_of_two_servers_is_found():
    two = {"a": PINNED, "b": PINNED}
    assert doubles(accounts(libvirt=two)) == ["one: CPU 1 belongs to 2 servers in libvirt"]
    assert doubles(accounts()) == []


def test_no_cpu_in_one_store_and_one_in_another_differ():
    none = {"a": Holding(vcpus=1, memory_mb=64, disk_gb=1, cpus=frozenset())}
    assert differences(accounts(rtagent=none)) == [
        "one: a: cpus: [1] in Nova, [1] in Placement, [1] in libvirt, [] in rtagent"
    ]
