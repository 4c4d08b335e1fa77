"""Discovery: the agent reports the hardware of the profile."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from lab.machine import EDU
from rtagent.errors import ComputeResourcesUnavailable
from tests.lab.pci import ALIAS, EVERYTHING, PORT, devices, kernel, offering
from tests.lab.rack import CONTEXT, Rack, Served, wait_until
from tests.support.hosts import uid

#: MB of a cell that Linux may reserve for itself.
KERNEL = 160
PAGE = 2048


def test_devices_of_one_iommu_group_are_assigned_to_one_guest(rack: Rack):
    host = rack.host("shared-group")
    owner, other = uid(), uid()
    with offering(host, EDU, device_type="type-PCI"):
        one, two = devices(host).values()
        assert one["iommu_group"] == two["iommu_group"] is not None
        claim = host.claim(owner, devices=f"{ALIAS}:1")
        with pytest.raises(ComputeResourcesUnavailable):
            host.claim(other, devices=f"{ALIAS}:1")
        (_, left) = sorted(devices(host).values(), key=lambda device: device["status"])
        assert (left["status"], owner in left["reason"]) == ("unclaimable", True)
        host.api.release_claim(CONTEXT, claim["uuid"])
        assert len(host.claim(other, devices=f"{ALIAS}:2")["pci"]) == 2


@pytest.fixture(scope="module", params=["shared-group", "four-cells", "two-sockets"])
def machine(rack: Rack, request: pytest.FixtureRequest) -> Served:
    return rack.host(request.param)


def test_cells_threads_and_pages_match_the_profile(machine: Served):
    profile = machine.profile
    (seen,) = machine.read("/numa")["numa"]

    assert [cell["id"] for cell in seen["cells"]] == list(range(profile.cells))
    for cell in seen["cells"]:
        cores = [[cpu["id"] for cpu in core] for core in cell["cores"]]
        cpus = list(profile.cell_cpus(cell["id"]))
        assert cores == [
            cpus[n : n + profile.threads] for n in range(0, len(cpus), profile.threads)
        ]
        assert cell["sockets"] == [cpus[0] * profile.sockets // profile.cpus]
        assert profile.cell_memory_mb - KERNEL < cell["memory_mb"] <= profile.cell_memory_mb
        (pool,) = [pool for pool in cell["pages"] if pool["size_kb"] == PAGE]
        assert (pool["total"], pool["used"]) == (profile.cell_pages, 0)


def kinds(listed: Iterable[dict[str, Any]]) -> Counter[tuple[str, str, int | None]]:
    """Return the number of devices of each kind, from devices or pools."""
    found: Counter[tuple[str, str, int | None]] = Counter()
    for each in listed:
        kind = (f"{each['vendor_id']}:{each['product_id']}", kind_of(each), each["numa_node"])
        found[kind] += each.get("count", 1)
    return found


def kind_of(each: dict[str, Any]) -> str:
    return str(each.get("dev_type") or each["tags"]["dev_type"])


def test_devices_match_sysfs_and_the_profile(machine: Served):
    profile = machine.profile
    with offering(machine, EVERYTHING):
        seen, pools = devices(machine), machine.node()["pci_device_pools"]

    there = kernel(machine)
    assert {
        address: {name: device[name] for name in there.get(address, ())}
        for address, device in seen.items()
    } == there
    assert kinds(pools) == kinds(seen.values())
    ports = {a: d["numa_node"] for a, d in seen.items() if d["dev_type"] == "type-PF"}
    assert ports == ({PORT: profile.cells - 1} if profile.virtual_functions else {})


def online(host: Served, cpu: int, there: bool) -> None:
    """Put a CPU online or offline, and audit."""
    host.output("tee", f"/sys/devices/system/cpu/cpu{cpu}/online", given=str(int(there)))
    host.audit()


def test_offline_cpu_is_not_assigned(host: Served):
    for cpu in (3, 5, 7):
        online(host, cpu, False)

    assert {cpu for cpu, use in host.uses().items() if use == "offline"} == {3, 5, 7}
    assert host.node()["numa_topology"] is not None
    claim = host.claim(uid(), cpu_policy="dedicated", numa_nodes="1")
    (cell,) = claim["numa_topology"]["cells"]
    assert set(cell["cpu_pinning"].values()) == {4, 6}
    with pytest.raises(ComputeResourcesUnavailable):
        host.claim(uid(), cpu_policy="dedicated")

    online(host, 3, True)
    assert host.uses()[3] == "free"
    host.claim(uid(), cpu_policy="dedicated")


def test_held_cpu_that_goes_offline_stays_with_its_claim(host: Served):
    owner = uid()
    claim = host.claim(owner, cpu_policy="dedicated")
    (cell,) = claim["numa_topology"]["cells"]
    gone = max(cell["cpu_pinning"].values())

    online(host, gone, False)

    assert host.uses()[gone] == "claimed"
    (flag,) = host.read("/drift")["drift"]
    assert (flag["owner_id"], flag["problem"]) == (owner, "AssignedResourceNotFound")
    assert str(gone) in flag["resource"]
    wait_until(lambda: host.read("/health")["checks"]["cpus"][0]["status"] == "warn")

    online(host, gone, True)
    assert host.read("/drift")["drift"] == []
