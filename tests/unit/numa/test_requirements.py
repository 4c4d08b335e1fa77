"""What a flavor and an image require of CPUs, cells and pages."""

import pytest

from rtagent.errors import FlavorImageConflict, PropertyConflict
from rtagent.numa.requirements import numa_requirements
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
    ("specs", "image"),
    [
        ({"hw:mem_page_size": "small"}, {"hw_mem_page_size": "2MB"}),
        ({"hw:mem_page_size": "2MB"}, {"hw_mem_page_size": "2MB"}),
        ({}, {"hw_mem_page_size": "2MB"}),
        ({"hw:locked_memory": "true"}, {"hw_locked_memory": "false"}),
        ({"hw:pci_numa_affinity_policy": "socket"}, {"hw_pci_numa_affinity_policy": "legacy"}),
    ],
)
def test_image_must_not_override_the_flavor(specs, image):
    with pytest.raises(FlavorImageConflict) as refused:
        derived(specs, image)
    assert refused.value.kwargs["properties"] == {**specs, **image}
