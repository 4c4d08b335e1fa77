"""Devices and virtual functions that come and go while the agent runs."""

from __future__ import annotations

from lab.machine import sriov
from tests.builders import uid
from tests.lab.pci import ALIAS, NVME, PORT, devices, functions, kernel, offering
from tests.lab.rack import CONTEXT, Served, wait_until


def test_virtual_functions_come_and_go(host: Served):
    pid = host.unit("MainPID")
    with offering(host, NVME, device_type="type-VF"):
        assert set(devices(host)) == {PORT}

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
        wait_until(lambda: set(devices(host)) == {PORT, held})
        (flag,) = host.read("/drift")["drift"]
        assert (flag["owner_id"], flag["problem"]) == (owner, "AssignedResourceNotFound")
        assert held in flag["resource"]
        assert devices(host)[held]["owner_id"] == owner

        functions(host, 2)
        wait_until(lambda: host.read("/drift")["drift"] == [])
        functions(host, 0)
        host.api.release_claim(CONTEXT, claim["uuid"])
        wait_until(lambda: set(devices(host)) == {PORT})
    assert host.unit("MainPID") == pid


def test_a_device_is_unplugged_and_plugged_in_again(host: Served):
    pid = host.unit("MainPID")
    with offering(host, NVME):
        host.monitor("device_del", id="sriov")
        wait_until(lambda: not devices(host))
        host.monitor("device_add", **sriov(host.profile))
        wait_until(lambda: set(devices(host)) == {PORT})
    assert host.unit("MainPID") == pid
