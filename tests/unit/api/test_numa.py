"""The map of CPUs, cells and pages."""

import pytest
from msgspec.structs import replace

from rtagent.api import numa
from rtagent.api.numa import CLAIMED, FOREIGN, FREE, HOST, KEPT, OFFLINE, SHARED, Cpu, Pool
from rtagent.errors import NodeNotFound
from rtagent.model.numa_policy import NumaPolicy
from rtagent.model.policy import Policy
from tests.builders import NODE, TOPOLOGY, host
from tests.numa_hosts import LARGE, SMALL
from tests.unit.api.placed import CLAIMS, IDLE, STRANGER, WEB, mapped


def cpus(state):
    cells = numa.host(state)["cells"]
    return {cpu.id: cpu for cell in cells for core in cell.cores for cpu in core}


def test_every_cpu_has_one_use():
    uses = {number: cpu.use for number, cpu in cpus(mapped()).items()}
    assert uses == {
        **dict.fromkeys((0, 1), SHARED),
        **dict.fromkeys((2, 3, 4), CLAIMED),
        5: KEPT,
        **dict.fromkeys((6, 7, 8, 10, 11), FREE),
        9: FOREIGN,
        **dict.fromkeys((12, 13, 14), HOST),
        15: OFFLINE,
    }


def test_a_cpu_names_its_owner_and_who_else_is_there():
    seen = cpus(mapped())
    web, idle = CLAIMS
    assert seen[3] == Cpu(
        id=3, use=CLAIMED, owner_id=WEB, name="web-1", claim_uuid=web.uuid, intruders=(STRANGER,)
    )
    assert seen[5] == Cpu(id=5, use=KEPT, owner_id=IDLE, claim_uuid=idle.uuid)
    assert seen[9] == Cpu(id=9, use=FOREIGN, owner_id=STRANGER, name="odd")


def test_a_cpu_that_is_offline_and_held_is_its_holders():
    state = mapped()
    assert state.topology is not None
    there = replace(state.topology, cpus=state.topology.cpus - {2})
    assert cpus(replace(state, topology=there))[2].owner_id == WEB


def test_siblings_are_side_by_side():
    first, second = numa.host(mapped())["cells"]
    assert [[cpu.id for cpu in core] for core in first.cores] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [[cpu.id for cpu in core] for core in second.cores][-2:] == [[14], [15]]


def test_cells_tell_of_their_memory_and_their_pages():
    first, second = numa.host(mapped())["cells"]
    assert (first.memory_mb, first.memory_used_mb, second.memory_used_mb) == (8192, 1536, 0)
    assert first.pages == (
        Pool(size_kb=SMALL, total=1835008, reserved=0, used=262144, free=1572864),
        Pool(size_kb=LARGE, total=512, reserved=64, used=256, free=192),
    )


def test_a_host_without_cpu_sets_shares_all():
    whole = replace(mapped(), policy=Policy(numa=NumaPolicy()))
    assert {cpus(whole)[n].use for n in (6, 8, 12)} == {SHARED}


@pytest.mark.parametrize("state", [host(replace(TOPOLOGY, cells=())), host(None)])
def test_without_cells_there_is_no_map(state):
    assert numa.host(state)["cells"] == ()


def test_a_node_is_named_by_uuid_or_hostname():
    for name in (NODE.uuid, NODE.hypervisor_hostname):
        assert numa.member(mapped(), name)["numa"] == numa.collection(mapped())["numa"][0]
    with pytest.raises(NodeNotFound):
        numa.member(mapped(), "other")
