"""The view of CPUs, NUMA cells and pages."""

import pytest
from msgspec.structs import replace

from rtagent.api import numa
from rtagent.api.numa import CLAIMED, FOREIGN, FREE, HOST, KEPT, OFFLINE, SHARED, Cpu, Pool
from rtagent.errors import NodeNotFound
from rtagent.model.policy import NumaPolicy, Policy
from tests.support.hosts import NODE
from tests.support.numa_hosts import LARGE, SMALL
from tests.support.owned_hosts import CLAIMS, FOREIGN_DOMAIN, IDLE, WEB, pinned_host


def cpus(state):
    cells = numa.document(state)["cells"]
    return {cpu.id: cpu for cell in cells for core in cell.cores for cpu in core}


def test_every_cpu_has_one_use():
    uses = {number: cpu.use for number, cpu in cpus(pinned_host()).items()}
    assert uses == {
        **dict.fromkeys((0, 1), SHARED),
        **dict.fromkeys((2, 3, 4), CLAIMED),
        5: KEPT,
        **dict.fromkeys((6, 7, 8, 10, 11), FREE),
        9: FOREIGN,
        **dict.fromkeys((12, 13, 14), HOST),
        15: OFFLINE,
    }


def test_a_cpu_names_its_owner_and_other_users():
    seen = cpus(pinned_host())
    web, idle = CLAIMS
    owner = {"owner_id": WEB, "name": "web-1", "claim_uuid": web.uuid}
    assert seen[3] == Cpu(id=3, use=CLAIMED, intruders=(FOREIGN_DOMAIN,), **owner)
    assert seen[5] == Cpu(id=5, use=KEPT, owner_id=IDLE, claim_uuid=idle.uuid)
    assert seen[9] == Cpu(id=9, use=FOREIGN, owner_id=FOREIGN_DOMAIN, name="odd")


def test_a_claimed_cpu_that_is_offline_keeps_its_owner():
    state = pinned_host()
    assert state.topology is not None
    there = replace(state.topology, cpus=state.topology.cpus - {2})
    assert cpus(replace(state, topology=there))[2].owner_id == WEB


def test_cpus_are_grouped_by_core():
    first, second = numa.document(pinned_host())["cells"]
    assert [[cpu.id for cpu in core] for core in first.cores] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [[cpu.id for cpu in core] for core in second.cores][-2:] == [[14], [15]]


def test_cells_have_memory_and_page_pools():
    first, second = numa.document(pinned_host())["cells"]
    assert (first.memory_mb, first.memory_used_mb, second.memory_used_mb) == (8192, 1536, 0)
    assert (first.vcpus, second.vcpus) == (0, 0)
    small = Pool(size_kb=SMALL, total=1835008, reserved=0, used=262144, free=1572864)
    large = Pool(size_kb=LARGE, total=512, reserved=64, used=256, free=192)
    assert first.pages == (small, large)


def test_without_cpu_sets_every_cpu_is_shared():
    whole = replace(pinned_host(), policy=Policy(numa=NumaPolicy()))
    assert {cpus(whole)[n].use for n in (6, 8, 12)} == {SHARED}


def test_a_host_is_found_by_uuid_or_hostname():
    for name in (NODE.uuid, NODE.hypervisor_hostname):
        assert numa.host(pinned_host(), name)["numa"] == numa.hosts(pinned_host())["numa"][0]
    with pytest.raises(NodeNotFound):
        numa.host(pinned_host(), "other")
