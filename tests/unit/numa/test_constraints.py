"""What flavors and images ask for, and what they may not."""

import json

import pytest

from rtagent.errors import FlavorImageConflict, InvalidRequest, PropertyConflict, PropertyInvalid
from rtagent.model.flavor import Flavor, Image
from rtagent.numa.constraints import constraints, with_page_sizes
from rtagent.numa.guest import GuestCell
from tests.numa_hosts import asked, pinned


def both(specs=None, image=None, vcpus=4, memory_mb=4096):
    flavor = Flavor(vcpus=vcpus, memory_mb=memory_mb, extra_specs=specs or {})
    return constraints(flavor, Image(properties=image or {}))


def test_an_ordinary_guest_asks_for_no_topology():
    plain = both()
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
def test_what_makes_a_topology(specs):
    (cell,) = both(specs).cells
    assert cell.cpuset | cell.pcpuset == {0, 1, 2, 3}
    assert cell.memory == 4096


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
def test_cpu_policy(flavor, image, policy):
    specs = {"hw:cpu_dedicated_mask": "0"} if policy == "mixed" else {}
    specs |= {"hw:cpu_policy": flavor} if flavor else {}
    assert both(specs, {"hw_cpu_policy": image} if image else {}).cpu_policy == policy


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
def test_cpu_thread_policy(flavor, image, policy):
    specs = {"hw:cpu_policy": "dedicated"}
    specs |= {"hw:cpu_thread_policy": flavor} if flavor else {}
    image = {"hw_cpu_thread_policy": image} if image else {}
    assert both(specs, image).cpu_thread_policy == policy


@pytest.mark.parametrize(
    ("specs", "image", "policy"),
    [
        ({"trait:HW_CPU_HYPERTHREADING": "required"}, {}, "require"),
        ({"trait1:HW_CPU_HYPERTHREADING": "forbidden"}, {}, "isolate"),
        ({}, {"trait:HW_CPU_HYPERTHREADING": "required"}, "require"),
        ({}, {"trait:HW_CPU_HYPERTHREADING": "forbidden"}, "prefer"),
    ],
)
def test_the_trait_stands_for_a_thread_policy(specs, image, policy):
    assert both({"hw:cpu_policy": "dedicated", **specs}, image).cpu_thread_policy == policy


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
def test_how_many_of_each(specs, vcpus, pcpus):
    guest = both(specs)
    assert (guest.vcpus, guest.pcpus) == (vcpus, pcpus)


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
    assert both({"hw:cpu_policy": "dedicated", **specs}, image).realtime == realtime


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
def test_pages(flavor, image, pagesize):
    specs = {"hw:mem_page_size": flavor} if flavor else {"hw:numa_nodes": "1"}
    (cell,) = both(specs, {"hw_mem_page_size": image} if image else {}).cells
    assert cell.pagesize == pagesize


def test_even_cells():
    assert both({"hw:numa_nodes": "2", "hw:cpu_policy": "dedicated"}).cells == (
        GuestCell(cpuset=frozenset(), pcpuset=frozenset({0, 1}), memory=2048),
        GuestCell(cpuset=frozenset(), pcpuset=frozenset({2, 3}), memory=2048),
    )


@pytest.mark.parametrize("side", ["flavor", "image"])
def test_cells_one_by_one(side):
    flavor = {
        "hw:numa_cpus.0": "0-2",
        "hw:numa_mem.0": "3072",
        "hw:numa_cpus.1": "3",
        "hw:numa_mem.1": "1024",
    }
    image = {name.replace(":", "_"): value for name, value in flavor.items()}
    nodes = {"hw:numa_nodes": "2", "hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "1-2"}
    guest = both(
        {**nodes, **(flavor if side == "flavor" else {})}, image if side == "image" else {}
    )
    assert guest.cells == (
        GuestCell(cpuset=frozenset({0}), pcpuset=frozenset({1, 2}), memory=3072),
        GuestCell(cpuset=frozenset({3}), pcpuset=frozenset(), memory=1024),
    )


@pytest.mark.parametrize(
    ("specs", "image", "shape"),
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
def test_cpu_topology(specs, image, shape):
    seen = both(specs, image, vcpus=8).cpu_topology
    assert (seen.sockets, seen.cores, seen.threads) == shape


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
def test_pci_numa_affinity_policy(specs, image, policy):
    assert both(specs, image).pci_numa_affinity_policy == policy


@pytest.mark.parametrize(
    ("specs", "image", "locked"),
    [
        ({}, {}, False),
        ({"hw:locked_memory": "false"}, {}, False),
        ({"hw:locked_memory": "true", "hw:mem_page_size": "any"}, {}, True),
        ({"hw:mem_page_size": "any"}, {"hw_locked_memory": "yes"}, True),
    ],
)
def test_locked_memory(specs, image, locked):
    assert both(specs, image).locked_memory is locked


def test_an_empty_value_is_none():
    assert both({"hw:cpu_policy": "", "hw:numa_nodes": ""}) == both()


REALTIME = {"hw:cpu_policy": "dedicated", "hw:cpu_realtime": "yes"}
INVALID = [
    ({"hw:cpu_policy": "exclusive"}, {}, "hw:cpu_policy"),
    ({}, {"hw_cpu_policy": "exclusive"}, "hw_cpu_policy"),
    ({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "some"}, {}, "hw:cpu_thread_policy"),
    ({"hw:cpu_policy": "dedicated"}, {"hw_cpu_thread_policy": "some"}, "hw_cpu_thread_policy"),
    ({"hw:emulator_threads_policy": "isolated"}, {}, "hw:emulator_threads_policy"),
    ({"hw:cpu_realtime": "perhaps"}, {}, "hw:cpu_realtime"),
    ({**REALTIME, "hw:cpu_realtime_mask": "^x"}, {}, "hw:cpu_realtime_mask"),
    ({**REALTIME, "hw:cpu_realtime_mask": "3-4"}, {}, "hw:cpu_realtime_mask"),
    ({**REALTIME}, {"hw_cpu_realtime_mask": "9"}, "hw_cpu_realtime_mask"),
    ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "1-"}, {}, "hw:cpu_dedicated_mask"),
    ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "4"}, {}, "hw:cpu_dedicated_mask"),
    ({"hw:numa_nodes": "0"}, {}, "hw:numa_nodes"),
    ({"hw:numa_nodes": "two"}, {}, "hw:numa_nodes"),
    ({}, {"hw_numa_nodes": "-1"}, "hw_numa_nodes"),
    (
        {"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "4GB"},
        {},
        "hw:numa_mem.0",
    ),
    ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "all", "hw:numa_mem.0": "1"}, {}, "hw:numa_cpus.0"),
    ({"hw:mem_page_size": "2M"}, {}, "hw:mem_page_size"),
    ({"hw:mem_page_size": "any"}, {"hw_mem_page_size": "huge"}, "hw_mem_page_size"),
    ({"hw:locked_memory": "maybe"}, {}, "hw:locked_memory"),
    ({"hw:pci_numa_affinity_policy": "near"}, {}, "hw:pci_numa_affinity_policy"),
    ({}, {"hw_pci_numa_affinity_policy": "near"}, "hw_pci_numa_affinity_policy"),
    ({"hw:cpu_sockets": "two"}, {}, "hw:cpu_sockets"),
    ({"hw:cpu_max_threads": "0"}, {}, "hw:cpu_max_threads"),
    ({"resources:PCPU": "all"}, {}, "resources:PCPU"),
]


@pytest.mark.parametrize(("specs", "image", "name"), INVALID)
def test_a_bad_value_names_itself(specs, image, name):
    with pytest.raises(PropertyInvalid) as refused:
        both(specs, image)
    assert list(refused.value.kwargs["properties"]) == [name]
    assert f"{name}={({**specs, **image})[name]}" in str(refused.value)


OVERRIDING = [
    ({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"}),
    ({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "mixed"}),
    ({"hw:cpu_policy": "mixed"}, {"hw_cpu_policy": "dedicated"}),
    ({"hw:cpu_thread_policy": "isolate"}, {"hw_cpu_thread_policy": "require"}),
    ({"hw:cpu_thread_policy": "isolate"}, {"hw_cpu_thread_policy": "prefer"}),
    ({"hw:numa_nodes": "2"}, {"hw_numa_nodes": "2"}),
    ({"hw:mem_page_size": "small"}, {"hw_mem_page_size": "2MB"}),
    ({"hw:mem_page_size": "2MB"}, {"hw_mem_page_size": "2MB"}),
    ({}, {"hw_mem_page_size": "2MB"}),
    ({"hw:locked_memory": "true"}, {"hw_locked_memory": "false"}),
    ({"hw:pci_numa_affinity_policy": "socket"}, {"hw_pci_numa_affinity_policy": "legacy"}),
    ({"hw:cpu_max_cores": "2"}, {"hw_cpu_max_cores": "3"}),
    ({"hw:cpu_max_sockets": "2"}, {"hw_cpu_sockets": "4"}),
    ({}, {"hw_cpu_max_threads": "1", "hw_cpu_threads": "2"}),
]


@pytest.mark.parametrize(("specs", "image"), OVERRIDING)
def test_an_image_that_overrides_is_named_beside_the_flavor(specs, image):
    with pytest.raises(FlavorImageConflict) as refused:
        both(specs, image)
    named = refused.value.kwargs["properties"]
    assert named.items() >= {**specs, **image}.items()
    assert len(named) > 1


@pytest.mark.parametrize("name", ["hw:numa_cpus.0", "hw:numa_mem.0"])
def test_an_image_may_not_describe_cells_that_the_flavor_describes(name):
    cells = {"hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "4096"}
    image = {name.replace(":", "_"): cells[name]}
    with pytest.raises(FlavorImageConflict) as refused:
        both({"hw:numa_nodes": "1", **cells}, image)
    assert refused.value.kwargs["properties"] == {name: cells[name], **image}


EXCLUSIVE = [
    ({"hw:cpu_policy": "dedicated", "resources:PCPU": "4"}, {}),
    ({"resources:VCPU": "4"}, {"hw_cpu_policy": "shared"}),
    ({"resources:VCPU": "2", "resources2:PCPU": "2"}, {}),
    ({"resources:PCPU": "3"}, {}),
    ({"resources:PCPU": "4", "hw:emulator_threads_policy": "isolate"}, {}),
    ({"hw:cpu_policy": "shared", "hw:cpu_thread_policy": "prefer"}, {}),
    ({}, {"hw_cpu_thread_policy": "require"}),
    ({"trait:HW_CPU_HYPERTHREADING": "required"}, {}),
    (
        {
            "hw:cpu_policy": "dedicated",
            "hw:cpu_thread_policy": "isolate",
            "trait:HW_CPU_HYPERTHREADING": "forbidden",
        },
        {},
    ),
    ({"hw:emulator_threads_policy": "isolate"}, {}),
    ({"hw:cpu_realtime": "yes"}, {}),
    (REALTIME, {}),
    ({**REALTIME, "hw:cpu_realtime_mask": "^0-3"}, {}),
    ({**REALTIME, "hw:cpu_realtime_mask": "0-3"}, {}),
    ({"hw:cpu_dedicated_mask": "0"}, {}),
    ({"hw:cpu_policy": "dedicated", "hw:cpu_dedicated_mask": "0"}, {}),
    ({"hw:cpu_policy": "mixed"}, {}),
    ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-3"}, {}),
    ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0-3"}, {}),
    (
        {
            "hw:cpu_policy": "mixed",
            "hw:cpu_dedicated_mask": "0",
            "hw:cpu_realtime": "yes",
            "hw:cpu_realtime_mask": "1",
        },
        {},
    ),
    ({"hw:numa_nodes": "3"}, {}),
    ({"hw:numa_nodes": "2", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "4096"}, {}),
    ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3"}, {}),
    ({"hw:numa_nodes": "1", "hw:numa_mem.0": "4096"}, {}),
    ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-2", "hw:numa_mem.0": "4096"}, {}),
    ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-4", "hw:numa_mem.0": "4096"}, {}),
    ({"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "4000"}, {}),
    (
        {
            "hw:numa_nodes": "2",
            "hw:numa_cpus.0": "0-2",
            "hw:numa_mem.0": "2048",
            "hw:numa_cpus.1": "2-3",
            "hw:numa_mem.1": "2048",
        },
        {},
    ),
    ({"hw:locked_memory": "yes"}, {}),
    ({"hw:cpu_max_sockets": "1", "hw:cpu_max_cores": "3", "hw:cpu_max_threads": "1"}, {}),
]


@pytest.mark.parametrize(("specs", "image"), EXCLUSIVE)
def test_values_that_exclude_each_other_are_named(specs, image):
    with pytest.raises(PropertyConflict) as refused:
        both(specs, image)
    named = refused.value.kwargs["properties"]
    assert named
    told = {**specs, **image}
    assert all(named[name] == value for name, value in told.items() if name in named)
    assert named.keys() & told.keys()


def test_a_refusal_is_an_invalid_request_that_crosses_the_wire():
    with pytest.raises(InvalidRequest) as refused:
        both({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"})
    told = json.loads(json.dumps(refused.value.as_dict()))
    assert told["properties"] == {"hw:cpu_policy": "shared", "hw_cpu_policy": "dedicated"}
    again = FlavorImageConflict(**refused.value.kwargs)
    assert str(again) == str(refused.value) == told["message"]


def test_a_guest_of_more_vcpus_than_there_are_cpu_numbers():
    with pytest.raises(PropertyConflict, match=r"flavor\.vcpus=65537: .*65536"):
        both(vcpus=65537)


def test_pages_that_a_migration_must_keep():
    (cell,) = with_page_sizes(asked(mem_page_size="large"), (2048,)).cells
    assert cell.pagesize == 2048
    assert with_page_sizes(pinned(), (None,)) == pinned()
