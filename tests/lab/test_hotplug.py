"""Devices and virtual functions that are added and removed while the agent runs."""

from lab.machine import NVME, sriov
from tests.lab.pci import ALIAS, PORT, devices, functions, kernel, offering
from tests.lab.rack import CONTEXT, Served, wait_until
from tests.support.hosts import uid


def lost(host: Served) -> list[str]:
    """Return the owners of units that are absent."""
    flags = host.read("/drift")["drift"]
    return [flag["owner_id"] for flag in flags if flag["problem"] == "AssignedResourceNotFound"]


def test_virtual_functions_are_added_and_removed(host: Served):
    pid = host.unit("MainPID")
    with offering(host, NVME, device_type="type-VF"):
        wait_until(lambda: set(devices(host)) == {PORT})

        functions(host, 2)
        wait_until(lambda: len(devices(host)) == 3)
        there, made = kernel(host), devices(host)
        assert made.pop(PORT)["status"] == "available"
        for address, function in made.items():
            assert (function["dev_type"], function["parent_addr"]) == ("type-VF", PORT)
            assert function["iommu_group"] == there[address]["iommu_group"]
            assert function["numa_node"] == there[address]["numa_node"] == 1

        owner = uid()
        claim = host.claim(owner, devices=f"{ALIAS}:1")
        (held,) = (device["address"] for device in claim["pci"])
        assert devices(host)[PORT]["status"] == "unclaimable"
        functions(host, 0)
        wait_until(lambda: set(devices(host)) == {PORT, held} and lost(host) == [owner])
        assert devices(host)[held]["owner_id"] == owner

        functions(host, 2)
        wait_until(lambda: len(devices(host)) == 3 and lost(host) == [])
        functions(host, 0)
        wait_until(lambda: set(devices(host)) == {PORT, held})
        host.api.release_claim(CONTEXT, claim["uuid"])
        host.audit()
        assert set(devices(host)) == {PORT}
    assert host.unit("MainPID") == pid


def test_held_device_that_is_unplugged_stays_with_its_claim(host: Served):
    pid, owner = host.unit("MainPID"), uid()
    with offering(host, NVME, device_type="type-PF"):
        claim = host.claim(owner, devices=f"{ALIAS}:1")
        host.monitor("device_del", id="sriov")
        wait_until(lambda: lost(host) == [owner])
        assert devices(host)[PORT]["owner_id"] == owner
        host.monitor("device_add", **sriov(host.profile))
        wait_until(lambda: lost(host) == [])
        assert devices(host)[PORT]["owner_id"] == owner

        host.api.release_claim(CONTEXT, claim["uuid"])
        assert devices(host)[PORT]["status"] == "available"
    assert host.unit("MainPID") == pid
