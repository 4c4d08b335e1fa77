"""What a host is made of, as the agent sees it: what its profile says."""

import pytest

from lab.profile import PROFILES
from rtagent.errors import ComputeResourcesUnavailable
from tests.builders import uid
from tests.lab.rack import Rack, Served

#: MB that the kernel of a cell may keep for itself.
KERNEL = 160
PAGE = 2048


@pytest.mark.parametrize("name", ["four-cells", "two-sockets"])
def test_cells_threads_and_pages_are_those_of_the_profile(rack: Rack, name: str):
    profile = PROFILES[name]
    (seen,) = rack.host(name).read("/numa")["numa"]

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


def online(host: Served, cpu: int, there: bool) -> None:
    """Switch a CPU on or off, and have the agent look."""
    host.tell("tee", f"/sys/devices/system/cpu/cpu{cpu}/online", given=str(int(there)))
    host.audit()


def uses(host: Served) -> dict[int, str]:
    """What each CPU is used for."""
    (seen,) = host.read("/numa")["numa"]
    cores = [core for cell in seen["cells"] for core in cell["cores"]]
    return {cpu["id"]: cpu["use"] for core in cores for cpu in core}


def test_a_cpu_that_is_offline_is_not_granted(host: Served):
    for cpu in (3, 5, 7):
        online(host, cpu, False)

    assert {cpu for cpu, use in uses(host).items() if use == "offline"} == {3, 5, 7}
    assert host.node()["numa_topology"] is not None
    claim = host.claim(uid(), cpu_policy="dedicated", numa_nodes="1")
    (cell,) = claim["numa_topology"]["cells"]
    assert set(cell["cpu_pinning"].values()) == {4, 6}
    with pytest.raises(ComputeResourcesUnavailable):
        host.claim(uid(), cpu_policy="dedicated")

    online(host, 3, True)
    assert uses(host)[3] == "free"
    host.claim(uid(), cpu_policy="dedicated")


def test_a_cpu_that_goes_while_it_is_held_stays_with_its_holder(host: Served):
    owner = uid()
    claim = host.claim(owner, cpu_policy="dedicated")
    (cell,) = claim["numa_topology"]["cells"]
    gone = max(cell["cpu_pinning"].values())

    online(host, gone, False)

    assert uses(host)[gone] == "claimed"
    (flag,) = host.read("/drift")["drift"]
    assert (flag["owner_id"], flag["problem"]) == (owner, "AssignedResourceNotFound")
    assert str(gone) in flag["resource"]
    (check,) = host.read("/health")["checks"]["cpus"]
    assert check["status"] == "warn"

    online(host, gone, True)
    assert host.read("/drift")["drift"] == []
