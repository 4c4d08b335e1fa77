"""The node's record, with Nova's field names, and its views, which operators search the log for."""

import pytest
from msgspec.structs import replace

from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.change import Change
from rtagent.model.domain_usage import Occupancy
from rtagent.model.policy import NetworkPolicy, NumaPolicy
from rtagent.model.topology import Cell, Topology
from rtagent.state.compute_node import compute_node, resource_views
from tests.support.claims import pinned_claim
from tests.support.device_states import refusal, with_builds
from tests.support.hosts import NOON, TOPOLOGY, domain_usage, host, observed, request
from tests.support.owned_hosts import devices_in_every_state


def test_record_has_novas_fields_and_free_quantities_may_be_negative():
    state = host(reserved_memory_mb=512, reserved_disk_mb=1024, ram_allocation_ratio=2.0)
    states = {"vm_state": "building", "task_state": "spawning"}
    facts = {"project_id": "p", "os_type": "linux", **states}
    state = with_builds(state, request(8, 16384, 10, swap=1, instance=facts))
    record = compute_node(observed(state, domain_usage(None, 2, 1000)))
    assert record["vcpus"] == 8 and record["vcpus_used"] == 10
    assert record["memory_mb_used"] == 512 + 16384 + 1000
    assert record["free_ram_mb"] == 16384 - 512 - 16384 - 1000 < 0
    assert (record["local_gb"], record["local_gb_used"], record["free_disk_gb"]) == (100, 12, 88)
    assert record["running_vms"] == 1 and record["current_workload"] == 1
    counts = ("num_instances", "num_vm_building", "num_task_spawning", "num_os_type_linux")
    ones = dict.fromkeys((*counts, "num_proj_p", "io_workload"), 1)
    assert record["stats"] == {**ones, "failed_builds": 0}
    assert record["ram_allocation_ratio"] == 2.0


def test_memory_in_files_is_the_memory_of_the_node():
    state = host(numa=NumaPolicy(file_backed_memory_mb=100_000))
    record = compute_node(with_builds(state, request(1, 90_000)))
    assert (record["memory_mb"], record["free_ram_mb"]) == (100_000, 10_000)
    assert [str(reason) for reason in refusal(state, request(1, 100_001)).reasons] == [
        "MEMORY_MB: 100001 MB requested at cn1.example, the host has 100000 in all"
    ]


CELLS = Topology(
    cpus=frozenset(range(6)),
    memory_mb=4096,
    disk_mb=1024,
    cells=(
        Cell(
            id=0,
            cpus=frozenset({0, 1, 4, 5}),
            memory_mb=3072,
            offline=frozenset({6}),
            siblings=(frozenset({0, 4}), frozenset({1, 5})),
            pages={4: 2**18, 2048: 512},
        ),
        Cell(id=3, cpus=frozenset({2, 3}), memory_mb=1024),
    ),
)
SETS = NumaPolicy(
    cpu_shared_set=frozenset({2, 7}),
    cpu_dedicated_set=frozenset({0, 1, 4, 5, 6}),
    reserved_huge_pages={0: {2048: 16}},
    networks=NetworkPolicy(
        physnets={"foo": frozenset({0, 3}), "bar": frozenset({0})}, tunnels=frozenset({3})
    ),
)


def test_record_shows_cells_and_their_usage():
    state = with_builds(host(CELLS, numa=SETS), request(1, 100))
    pinned = pinned_claim(1, 6, kept=(5,), memory_mb=64, pagesize=2048)
    state = state.fold(Change(cause="x", at=NOON, puts=(pinned,)))
    bound = Occupancy(pcpus=frozenset({0}), vcpus=(frozenset({0}),), memory_mb={3: 7})
    record = compute_node(observed(state, domain_usage(memory_mb=7, occupancy=bound)))
    assert record["vcpus"] == 5
    assert record["vcpus_used"] == 1 + 2 + 1
    small = {"size_kb": 4, "total": 2**18, "used": 0, "reserved": 0}
    large = {"size_kb": 2048, "total": 512, "used": 32, "reserved": 16}
    bare = {"cpuset": [], "pcpuset": [], "pinned_cpus": [], "siblings": [], "cpu_usage": 0}
    cpus = {"pcpuset": [0, 1, 4, 5], "pinned_cpus": [0, 1, 5, 6], "siblings": [[0, 4], [1, 5]]}
    memory = {"memory": 3072, "memory_usage": 64, "mempages": [small, large]}
    both = {"physnets": ["bar", "foo"], "tunneled": False}
    tunnels = {"physnets": ["foo"], "tunneled": True}
    first = {**bare, "id": 0, **cpus, **memory, "network_metadata": both}
    rest = {"memory": 1024, "memory_usage": 7, "mempages": [], "network_metadata": tunnels}
    assert record["numa_topology"] == {"cells": [first, {**bare, "id": 3, "cpuset": [2], **rest}]}


def mempages(state):
    cells = compute_node(state)["numa_topology"]["cells"]
    return [{page["size_kb"]: page["used"] for page in cell["mempages"]} for cell in cells]


@pytest.mark.parametrize("pages", [{}, {"hw:mem_page_size": "small"}])
def test_memory_without_a_page_size_uses_pages_of_the_smallest_size(pages):
    specs = {"hw:numa_nodes": "1", **pages}
    state = with_builds(host(numa=NumaPolicy()), request(1, 1024, extra_specs=specs))
    assert mempages(state) == [{4: 262144, 2048: 0}, {4: 0, 2048: 0}]
    state = with_builds(state, request(1, 64, extra_specs={"hw:mem_page_size": "2MB"}))
    assert mempages(state) == [{4: 262144, 2048: 0}, {4: 0, 2048: 32}]


def test_memory_that_a_foreign_domain_binds_to_a_cell_uses_its_pages():
    bound = Occupancy(memory_mb={1: 9}, pages={1: {2048: 2}})
    state = observed(host(), domain_usage(memory_mb=9, occupancy=bound))
    assert mempages(state) == [{4: 0, 2048: 0}, {4: 5 * 256, 2048: 2}]


def test_shared_cpu_that_a_guest_is_pinned_to_is_not_in_the_cpuset():
    sets = NumaPolicy(cpu_shared_set=frozenset({0, 1}), cpu_dedicated_set=frozenset({2, 3}))
    state = host(numa=sets).fold(Change(cause="x", at=NOON, puts=(pinned_claim(1, 2),)))
    (first, _) = compute_node(state)["numa_topology"]["cells"]
    assert (first["cpuset"], first["pcpuset"], first["pinned_cpus"]) == ([0], [2, 3], [1, 2])


def test_shared_vcpus_are_counted_at_the_cell_where_they_float():
    floating = Assignment(cells=(CellAssignment(id=3, memory=5, cpuset=frozenset({0, 1})),))
    claim = replace(pinned_claim(), numa_topology=floating, vcpus=2)
    state = host(CELLS).fold(Change(cause="x", at=NOON, puts=(claim,)))
    cells = compute_node(state)["numa_topology"]["cells"]
    assert [cell["cpu_usage"] for cell in cells] == [0, 2]
    assert [cell["cpuset"] for cell in cells] == [[0, 1, 4, 5], [2, 3]]


@pytest.mark.parametrize("topology", [None, replace(TOPOLOGY, cells=())])
def test_record_of_a_host_without_cells_has_no_numa_topology(topology):
    assert compute_node(host(topology))["numa_topology"] is None


def test_views_have_novas_words():
    state = with_builds(host(reserved_memory_mb=512, reserved_disk_mb=1024), request(2, 1024, 10))
    assert resource_views(state) == {
        "Hypervisor resource view": (
            "name=cn1.example phys_ram=16384MB phys_disk=100GB cpus=8 numa_cells=2 pci_devices=0"
        ),
        "Hypervisor/Node resource view": (
            "name=cn1.example free_ram=14848MB free_disk=89GB free_vcpus=6 pci_devices=0"
        ),
        "Final resource view": (
            "name=cn1.example phys_ram=16384MB used_ram=1536MB phys_disk=100GB used_disk=11GB"
            " total_vcpus=8 used_vcpus=2 pci_stats=[] running_vms=1"
        ),
    }


def test_devices_are_counted_by_pool():
    views = resource_views(devices_in_every_state())
    assert views["Hypervisor resource view"].endswith("pci_devices=10")
    assert views["Hypervisor/Node resource view"].endswith("pci_devices=1")
    assert "pci_stats=[" in views["Final resource view"]
    assert "=1/" in views["Final resource view"]


def test_there_is_no_view_before_the_host_was_observed():
    assert resource_views(host(None)) == {}
