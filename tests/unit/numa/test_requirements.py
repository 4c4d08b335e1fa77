"""What a flavor and an image require of CPUs, cells and pages."""

import pytest

from rtagent.errors import FlavorImageConflict, PropertyConflict
from rtagent.numa.requirements import DescribedCell, numa_requirements
from tests.support.numa_hosts import pinned, required


def derived(specs=None, image=None, vcpus=4, memory_mb=4096):
    return numa_requirements(vcpus, memory_mb, specs or {}, image or {})


def test_ordinary_guest_has_no_cells():
    plain = derived()
    assert plain.cells == ()
    assert (plain.vcpus, plain.pcpus) == (4, 0)
    assert (plain.cpu_policy, plain.cpu_thread_policy) == ("shared", "prefer")


@pytest.mark.parametrize(
    "specs",
    [
        {"hw:numa_nodes": "1"},
        {"hw:cpu_policy": "dedicated"},
        {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0"},
        {"hw:mem_page_size": "any"},
        {"hw:pmem": "6GB"},
        {"resources:PCPU": "4"},
    ],
)
def test_extra_specs_that_give_a_guest_cells(specs):
    (cell,) = derived(specs).cells
    assert cell.cpuset | cell.pcpuset == {0, 1, 2, 3}
    assert cell.memory == 4096


@pytest.mark.parametrize(
    ("specs", "vcpus", "pcpus"),
    [
        ({"resources:VCPU": "4"}, 4, 0),
        ({"resources:VCPU": "0"}, 4, 0),
        ({"resources:PCPU": "4"}, 0, 4),
        ({"resources1:PCPU": "3", "resources2:PCPU": "1"}, 0, 4),
        ({"resources:PCPU": "5", "hw:emulator_threads_policy": "isolate"}, 0, 5),
        ({"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate"}, 0, 5),
        ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"}, 1, 3),
        ({"hw:cpu_policy": "mixed", "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "2-3"}, 2, 2),
    ],
)
def test_number_of_shared_vcpus_and_of_host_cpus(specs, vcpus, pcpus):
    guest = derived(specs)
    assert (guest.vcpus, guest.pcpus) == (vcpus, pcpus)


@pytest.mark.parametrize(
    ("flavor", "image", "pagesize"),
    [
        (None, None, None),
        ("2048", None, 2048),
        ("1GB", None, 1048576),
        ("small", None, "small"),
        ("any", "2MB", 2048),
        ("large", "1GB", 1048576),
        ("large", "small", "small"),
    ],
)
def test_page_size_of_flavor_and_image(flavor, image, pagesize):
    specs = {"hw:mem_page_size": flavor} if flavor else {"hw:numa_nodes": "1"}
    (cell,) = derived(specs, {"hw_mem_page_size": image} if image else {}).cells
    assert cell.pagesize == pagesize


@pytest.mark.parametrize(
    ("specs", "image", "policy"),
    [
        ({}, {}, None),
        ({"hw:pci_numa_affinity_policy": "socket"}, {}, "socket"),
        ({}, {"hw_pci_numa_affinity_policy": "required"}, "required"),
        (
            {"hw:pci_numa_affinity_policy": "legacy"},
            {"hw_pci_numa_affinity_policy": "legacy"},
            "legacy",
        ),
    ],
)
def test_pci_numa_affinity_policy_of_flavor_and_image(specs, image, policy):
    assert derived(specs, image).pci_numa_affinity_policy == policy


@pytest.mark.parametrize(
    ("specs", "image", "locked"),
    [
        ({}, {}, False),
        ({"hw:locked_memory": "false"}, {}, False),
        ({"hw:locked_memory": "true", "hw:mem_page_size": "any"}, {}, True),
        ({"hw:mem_page_size": "any"}, {"hw_locked_memory": "yes"}, True),
    ],
)
def test_locked_memory_of_flavor_and_image(specs, image, locked):
    assert derived(specs, image).locked_memory is locked


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


def test_isolated_emulator_is_required_of_cell_0():
    guest = pinned(4, numa_nodes="2", emulator_threads_policy="isolate")
    assert [cell.reserved for cell in guest.by_cell()] == [1, 0]
    assert [cell.reserved for cell in pinned(4, numa_nodes="2").by_cell()] == [0, 0]


@pytest.mark.parametrize(
    ("flavor", "image", "policy"),
    [
        (None, None, "shared"),
        (None, "dedicated", "dedicated"),
        (None, "shared", "shared"),
        ("shared", "shared", "shared"),
        ("dedicated", None, "dedicated"),
        ("dedicated", "shared", "dedicated"),
        ("dedicated", "mixed", "dedicated"),
        ("mixed", "shared", "mixed"),
        ("mixed", "mixed", "mixed"),
    ],
)
def test_cpu_policy_of_flavor_and_image(flavor, image, policy):
    specs = {"hw:cpu_dedicated_mask": "0"} if policy == "mixed" else {}
    specs |= {"hw:cpu_policy": flavor} if flavor else {}
    assert derived(specs, {"hw_cpu_policy": image} if image else {}).cpu_policy == policy


@pytest.mark.parametrize(
    ("flavor", "image", "policy"),
    [
        (None, None, "prefer"),
        (None, "isolate", "isolate"),
        ("prefer", "isolate", "prefer"),
        ("require", None, "require"),
        ("require", "require", "require"),
    ],
)
def test_thread_policy_of_flavor_and_image(flavor, image, policy):
    specs = {"hw:cpu_policy": "dedicated"}
    specs |= {"hw:cpu_thread_policy": flavor} if flavor else {}
    image = {"hw_cpu_thread_policy": image} if image else {}
    assert derived(specs, image).cpu_thread_policy == policy


@pytest.mark.parametrize(
    ("specs", "image", "policy"),
    [
        ({"trait:HW_CPU_HYPERTHREADING": "required"}, {}, "require"),
        ({"trait1:HW_CPU_HYPERTHREADING": "forbidden"}, {}, "isolate"),
        ({}, {"trait:HW_CPU_HYPERTHREADING": "required"}, "require"),
        ({}, {"trait:HW_CPU_HYPERTHREADING": "forbidden"}, "prefer"),
    ],
)
def test_hyperthreading_trait_sets_the_thread_policy(specs, image, policy):
    assert derived({"hw:cpu_policy": "dedicated", **specs}, image).cpu_thread_policy == policy


@pytest.mark.parametrize(
    ("specs", "image", "realtime"),
    [
        ({}, {}, set()),
        ({"hw:cpu_realtime": "no"}, {}, set()),
        ({"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0-1"}, {}, {2, 3}),
        ({"hw:cpu_realtime": "1", "hw:cpu_realtime_mask": "1"}, {}, {1}),
        (
            {"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "1"},
            {"hw_cpu_realtime_mask": "^0"},
            {1, 2, 3},
        ),
        ({"hw:cpu_realtime": "yes", "hw:emulator_threads_policy": "share"}, {}, {0, 1, 2, 3}),
    ],
)
def test_realtime_vcpus(specs, image, realtime):
    assert derived({"hw:cpu_policy": "dedicated", **specs}, image).realtime == realtime


@pytest.mark.parametrize(
    ("specs", "image", "counts"),
    [
        ({}, {}, (8, 1, 1)),
        ({"hw:cpu_max_sockets": "2"}, {}, (2, 4, 1)),
        ({"hw:cpu_max_sockets": "2", "hw:cpu_max_cores": "2"}, {}, (2, 2, 2)),
        ({"hw:cpu_threads": "2"}, {}, (4, 1, 2)),
        ({"hw:cpu_sockets": "2", "hw:cpu_cores": "2"}, {}, (2, 2, 2)),
        ({"hw:cpu_sockets": "3"}, {}, (8, 1, 1)),
        ({"hw:cpu_sockets": "2"}, {"hw_cpu_cores": "8"}, (1, 8, 1)),
        ({"hw:cpu_sockets": "4"}, {"hw_cpu_max_sockets": "2"}, (2, 4, 1)),
        ({"hw:cpu_max_sockets": "4"}, {"hw_cpu_max_sockets": "2"}, (2, 4, 1)),
    ],
)
def test_arrangement_of_the_vcpus(specs, image, counts):
    seen = derived(specs, image, vcpus=8).cpu_topology
    assert (seen.sockets, seen.cores, seen.threads) == counts


CELLS = {
    "hw:numa_cpus.0": "0-2",
    "hw:numa_mem.0": "3072",
    "hw:numa_cpus.1": "3",
    "hw:numa_mem.1": "1024",
}


def test_cells_are_of_equal_size_by_default():
    assert derived({"hw:numa_nodes": "2", "hw:cpu_policy": "dedicated"}).cells == (
        DescribedCell(cpuset=frozenset(), pcpuset=frozenset({0, 1}), memory=2048),
        DescribedCell(cpuset=frozenset(), pcpuset=frozenset({2, 3}), memory=2048),
    )


@pytest.mark.parametrize("side", ["flavor", "image"])
def test_flavor_or_image_describes_each_cell(side):
    image = {name.replace(":", "_"): value for name, value in CELLS.items()}
    nodes = {"hw:numa_nodes": "2", "hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "1-2"}
    guest = derived({**nodes, **CELLS}) if side == "flavor" else derived(nodes, image)
    assert guest.cells == (
        DescribedCell(cpuset=frozenset({0}), pcpuset=frozenset({1, 2}), memory=3072),
        DescribedCell(cpuset=frozenset({3}), pcpuset=frozenset(), memory=1024),
    )


@pytest.mark.parametrize("empty", ["", "  "])
@pytest.mark.parametrize("name", CELLS)
def test_empty_cpus_or_memory_describe_a_cell_incompletely(name, empty):
    specs = {"hw:numa_nodes": "2", **CELLS, name: empty}
    image = {key.replace(":", "_"): value for key, value in specs.items()}
    for flavor_specs, properties in ((specs, {}), ({}, image)):
        with pytest.raises(PropertyConflict) as refused:
            derived(flavor_specs, properties)
        assert refused.value.kwargs["properties"] == {**flavor_specs, **properties}


@pytest.mark.parametrize("name", ["hw:numa_cpus.0", "hw:numa_mem.0"])
def test_empty_description_is_not_an_unset_one(name):
    with pytest.raises(PropertyConflict) as refused:
        derived({"hw:numa_nodes": "4", name: ""})
    assert refused.value.kwargs["properties"] == {"hw:numa_nodes": "4", name: ""}


@pytest.mark.parametrize(
    ("specs", "image"),
    [
        ({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"}),
        ({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "mixed"}),
        ({"hw:cpu_policy": "mixed"}, {"hw_cpu_policy": "dedicated"}),
        ({"hw:cpu_thread_policy": "isolate"}, {"hw_cpu_thread_policy": "require"}),
        ({"hw:cpu_thread_policy": "isolate"}, {"hw_cpu_thread_policy": "prefer"}),
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


@pytest.mark.parametrize(
    ("name", "value"),
    [("numa_cpus.0", "0-3"), ("numa_cpus.0", ""), ("numa_mem.0", "4096")],
)
def test_image_must_not_describe_cells_that_the_flavor_describes(name, value):
    with pytest.raises(FlavorImageConflict) as refused:
        derived({"hw:numa_nodes": "1", f"hw:{name}": value}, {f"hw_{name}": "0-3"})
    assert refused.value.kwargs["properties"] == {f"hw:{name}": value, f"hw_{name}": "0-3"}
