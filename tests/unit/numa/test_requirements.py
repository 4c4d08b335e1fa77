"""What a flavor and an image require of CPUs, cells and pages."""

import pytest

from rtagent.errors import FlavorImageConflict, PropertyConflict
from rtagent.numa.requirements import DescribedCell, numa_requirements
from tests.support.numa_hosts import pinned, required


def derived(specs=None, image=None, vcpus=4, memory_mb=4096):
    return numa_requirements(vcpus, memory_mb, specs or {}, image or {})


@pytest.mark.parametrize(
    ("specs", "cells", "vcpus", "pcpus"),
    [
        ({"resources:VCPU": "4"}, 0, 4, 0),
        ({"hw:pmem": "6GB"}, 1, 4, 0),
        ({"hw:mem_page_size": "any"}, 1, 4, 0),
        ({"hw:numa_nodes": "2"}, 2, 4, 0),
        ({"resources1:PCPU": "3", "resources2:PCPU": "1"}, 1, 0, 4),
        ({"resources:PCPU": "5", "hw:emulator_threads_policy": "isolate"}, 1, 0, 5),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"}, 1, 1, 3),
    ],
)
def test_guest_cells_shared_vcpus_and_host_cpus(specs, cells, vcpus, pcpus):
    guest = derived(specs)
    assert (len(guest.cells), guest.vcpus, guest.pcpus) == (cells, vcpus, pcpus)


PAGES = "hw:mem_page_size"
PCI = "hw:pci_numa_affinity_policy"
THREADS = "hw:cpu_thread_policy"
REALTIME = {"hw:cpu_policy": "dedicated", "hw:cpu_realtime": "yes"}
DEDICATED = {"hw:cpu_policy": "dedicated"}


@pytest.mark.parametrize(
    ("specs", "image", "name", "value"),
    [
        ({"hw:cpu_policy": "dedicated"}, {"hw_cpu_policy": "shared"}, "cpu_policy", "dedicated"),
        ({}, {"hw_cpu_policy": "dedicated"}, "cpu_policy", "dedicated"),
        (DEDICATED, {}, "cpu_thread_policy", "prefer"),
        (DEDICATED, {"hw_cpu_thread_policy": "isolate"}, "cpu_thread_policy", "isolate"),
        ({**DEDICATED, THREADS: "prefer"}, {"hw_cpu_thread_policy": "isolate"},
         "cpu_thread_policy", "prefer"),
        ({**DEDICATED, THREADS: "require"}, {"hw_cpu_thread_policy": "require"},
         "cpu_thread_policy", "require"),
        ({**DEDICATED, "trait1:HW_CPU_HYPERTHREADING": "forbidden"}, {},
         "cpu_thread_policy", "isolate"),
        (DEDICATED, {"trait:HW_CPU_HYPERTHREADING": "required"}, "cpu_thread_policy", "require"),
        (DEDICATED, {"trait:HW_CPU_HYPERTHREADING": "forbidden"}, "cpu_thread_policy", "prefer"),
        ({**REALTIME, "hw:cpu_realtime_mask": "1"}, {}, "realtime", {1}),
        ({**REALTIME, "hw:cpu_realtime_mask": "1"}, {"hw_cpu_realtime_mask": "^0"},
         "realtime", {1, 2, 3}),
        ({**REALTIME, "hw:emulator_threads_policy": "share"}, {}, "realtime", {0, 1, 2, 3}),
        ({PCI: "legacy"}, {"hw_pci_numa_affinity_policy": "legacy"},
         "pci_numa_affinity_policy", "legacy"),
        ({}, {"hw_pci_numa_affinity_policy": "required"}, "pci_numa_affinity_policy", "required"),
        ({PAGES: "any", "hw:locked_memory": "true"}, {}, "locked_memory", True),
        ({PAGES: "any"}, {"hw_locked_memory": "yes"}, "locked_memory", True),
    ],
)  # fmt: skip
def test_policies_of_flavor_and_image(specs, image, name, value):
    assert getattr(derived(specs, image), name) == value


@pytest.mark.parametrize(
    ("flavor", "image", "pagesize"),
    [("2048", None, 2048), ("any", "2MB", 2048), ("large", "small", "small")],
)
def test_page_size_of_flavor_and_image(flavor, image, pagesize):
    (cell,) = derived({PAGES: flavor}, {"hw_mem_page_size": image} if image else {}).cells
    assert cell.pagesize == pagesize


def test_vcpus_are_limited_to_the_number_of_cpu_numbers():
    with pytest.raises(PropertyConflict, match=r"flavor\.vcpus=65537: .*65536"):
        derived(vcpus=65537)


def test_page_sizes_that_a_live_migration_keeps():
    (cell,) = required(mem_page_size="large").with_page_sizes((2048,)).cells
    assert cell.pagesize == 2048
    assert pinned().with_page_sizes((None,)) == pinned()


def test_page_sizes_of_another_number_of_cells_change_nothing():
    guest = required(mem_page_size="large")
    assert guest.with_page_sizes(()) == guest.with_page_sizes((2048, 2048)) == guest


@pytest.mark.parametrize(
    ("specs", "image", "counts"),
    [
        ({}, {}, (8, 1, 1)),
        ({"hw:cpu_max_sockets": "2", "hw:cpu_max_cores": "2"}, {}, (2, 2, 2)),
        ({"hw:cpu_threads": "2"}, {}, (4, 1, 2)),
        ({"hw:cpu_sockets": "2", "hw:cpu_cores": "2"}, {}, (2, 2, 2)),
        ({"hw:cpu_sockets": "3"}, {}, (8, 1, 1)),
        ({"hw:cpu_sockets": "2"}, {"hw_cpu_cores": "8"}, (1, 8, 1)),
        ({"hw:cpu_sockets": "4"}, {"hw_cpu_max_sockets": "2"}, (2, 4, 1)),
    ],
)
def test_arrangement_of_the_vcpus(specs, image, counts):
    seen = derived(specs, image, vcpus=8).cpu_topology
    assert (seen.sockets, seen.cores, seen.threads) == counts


FIRST = {"hw:numa_cpus.0": "0-2", "hw:numa_mem.0": "3072"}
CELLS = {**FIRST, "hw:numa_cpus.1": "3", "hw:numa_mem.1": "1024"}


@pytest.mark.parametrize("side", ["flavor", "image"])
def test_flavor_or_image_describes_each_cell(side):
    image = {name.replace(":", "_"): value for name, value in CELLS.items()}
    nodes = {"hw:numa_nodes": "2", "hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "1-2"}
    guest = derived({**nodes, **CELLS}) if side == "flavor" else derived(nodes, image)
    first = DescribedCell(cpuset=frozenset({0}), pcpuset=frozenset({1, 2}), memory=3072)
    second = DescribedCell(cpuset=frozenset({3}), pcpuset=frozenset(), memory=1024)
    assert guest.cells == (first, second)


@pytest.mark.parametrize("empty", ["", "  "])
@pytest.mark.parametrize("name", CELLS)
def test_empty_cpus_or_memory_describe_a_cell_incompletely(name, empty):
    specs = {"hw:numa_nodes": "2", **CELLS, name: empty}
    image = {key.replace(":", "_"): value for key, value in specs.items()}
    for flavor_specs, properties in ((specs, {}), ({}, image)):
        with pytest.raises(PropertyConflict) as refused:
            derived(flavor_specs, properties)
        assert refused.value.kwargs["properties"] == {**flavor_specs, **properties}


@pytest.mark.parametrize(
    ("specs", "image"),
    [
        ({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"}),
        ({"hw:cpu_policy": "mixed"}, {"hw_cpu_policy": "dedicated"}),
        ({"hw:cpu_thread_policy": "isolate"}, {"hw_cpu_thread_policy": "require"}),
        ({"hw:mem_page_size": "small"}, {"hw_mem_page_size": "2MB"}),
        ({"hw:mem_page_size": "2MB"}, {"hw_mem_page_size": "2MB"}),
        ({}, {"hw_mem_page_size": "2MB"}),
        ({"hw:locked_memory": "true"}, {"hw_locked_memory": "false"}),
        ({"hw:pci_numa_affinity_policy": "socket"}, {"hw_pci_numa_affinity_policy": "legacy"}),
        ({"hw:cpu_max_cores": "2"}, {"hw_cpu_max_cores": "3"}),
        ({"hw:cpu_max_sockets": "2"}, {"hw_cpu_sockets": "4"}),
        ({}, {"hw_cpu_max_threads": "1", "hw_cpu_threads": "2"}),
        ({"hw:numa_nodes": "2"}, {"hw_numa_nodes": "2"}),
    ],
)
def test_image_must_not_override_the_flavor(specs, image):
    with pytest.raises(FlavorImageConflict) as refused:
        derived(specs, image)
    assert refused.value.kwargs["properties"] == {**specs, **image}
