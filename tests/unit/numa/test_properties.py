"""Extra specs and image properties: values that are wrong, and errors that name them."""

import pytest

from rtagent.errors import PropertyConflict, PropertyInvalid
from rtagent.numa.requirements import numa_requirements


def derived(specs, image=None):
    return numa_requirements(4, 4096, specs, image or {})


TOPOLOGY = [f"cpu_{limit}{part}" for limit in ("", "max_") for part in ("cores", "threads")]


@pytest.mark.parametrize(
    "name",
    [
        *(f"hw{colon}{name}" for name in TOPOLOGY for colon in ":_"),
        "hw_numa_nodes",
        "hw_cpu_policy",
        "hw_cpu_thread_policy",
        "hw_pci_numa_affinity_policy",
    ],
)
def test_empty_number_of_a_topology_or_policy_of_an_image_is_invalid(name):
    specs, image = ({name: ""}, {}) if ":" in name else ({}, {name: ""})
    with pytest.raises(PropertyInvalid) as refused:
        derived({"hw:cpu_policy": "dedicated", **specs}, image)
    assert refused.value.kwargs["properties"] == {name: ""}


def cells(*described):
    """Extra specs of cells. :param described: CPUs and memory of each; None: unset."""
    named = {"hw:numa_nodes": str(len(described))}
    for number, values in enumerate(described):
        for name, value in zip(("cpus", "mem"), values, strict=True):
            named |= {f"hw:numa_{name}.{number}": value} if value else {}
    return named


DEDICATED, MIXED = {"hw:cpu_policy": "dedicated"}, {"hw:cpu_policy": "mixed"}
REALTIME = {**DEDICATED, "hw:cpu_realtime": "yes"}
MASK = "hw:cpu_dedicated_mask"
INVALID = [
    ({"hw:cpu_policy": "exclusive"}, {}, "hw:cpu_policy"),
    ({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "some"}, {}, "hw:cpu_thread_policy"),
    ({"hw:cpu_policy": "dedicated"}, {"hw_cpu_thread_policy": "some"}, "hw_cpu_thread_policy"),
    ({"hw:emulator_threads_policy": "isolated"}, {}, "hw:emulator_threads_policy"),
    ({"hw:cpu_realtime": "perhaps"}, {}, "hw:cpu_realtime"),
    ({**REALTIME, "hw:cpu_realtime_mask": "3-4"}, {}, "hw:cpu_realtime_mask"),
    ({**REALTIME}, {"hw_cpu_realtime_mask": "9"}, "hw_cpu_realtime_mask"),
    ({"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "1-"}, {}, "hw:cpu_dedicated_mask"),
    ({"hw:numa_nodes": "two"}, {}, "hw:numa_nodes"),
    ({}, {"hw_numa_nodes": "-1"}, "hw_numa_nodes"),
    (cells(("0-3", "4GB")), {}, "hw:numa_mem.0"),
    (cells(("all", "1")), {}, "hw:numa_cpus.0"),
    ({"hw:mem_page_size": "2M"}, {}, "hw:mem_page_size"),
    ({"hw:locked_memory": "maybe"}, {}, "hw:locked_memory"),
    ({"hw:pci_numa_affinity_policy": "near"}, {}, "hw:pci_numa_affinity_policy"),
    ({"hw:cpu_sockets": "two"}, {}, "hw:cpu_sockets"),
    ({"hw:cpu_max_threads": "0"}, {}, "hw:cpu_max_threads"),
    ({"resources:PCPU": "all"}, {}, "resources:PCPU"),
]


@pytest.mark.parametrize(("specs", "image", "name"), INVALID)
def test_error_names_the_property_with_an_invalid_value(specs, image, name):
    with pytest.raises(PropertyInvalid) as refused:
        derived(specs, image)
    assert list(refused.value.kwargs["properties"]) == [name]
    assert f"{name}={({**specs, **image})[name]}" in str(refused.value)


CONFLICTS = [
    ({"hw:cpu_policy": "dedicated", "resources:PCPU": "4"}, {}),
    ({"resources:VCPU": "4"}, {"hw_cpu_policy": "shared"}),
    ({"resources:VCPU": "2", "resources2:PCPU": "2"}, {}),
    ({"resources:PCPU": "4", "hw:emulator_threads_policy": "isolate"}, {}),
    ({}, {"hw_cpu_thread_policy": "require"}),
    ({"trait:HW_CPU_HYPERTHREADING": "required"}, {}),
    ({**DEDICATED, "hw:cpu_thread_policy": "isolate", "trait:HW_CPU_HYPERTHREADING": "x"}, {}),
    ({"hw:emulator_threads_policy": "isolate"}, {}),
    ({"hw:cpu_realtime": "yes"}, {}),
    (REALTIME, {}),
    ({**REALTIME, "hw:cpu_realtime_mask": "^0-3"}, {}),
    ({**DEDICATED, MASK: "0"}, {}),
    (MIXED, {}),
    ({**MIXED, MASK: "0-3"}, {}),
    ({**MIXED, MASK: "0", "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "1"}, {}),
    ({"hw:numa_nodes": "3"}, {}),
    (cells(("0-3", None)), {}),
    (cells((None, "4096")), {}),
    (cells(("0-2", "4096")), {}),
    (cells(("0-3", "4000")), {}),
    (cells(("0-2", "2048"), ("2-3", "2048")), {}),
    ({"hw:locked_memory": "yes"}, {}),
    ({"hw:cpu_max_sockets": "1", "hw:cpu_max_cores": "3", "hw:cpu_max_threads": "1"}, {}),
]


@pytest.mark.parametrize(("specs", "image"), CONFLICTS)
def test_error_names_the_properties_that_exclude_each_other(specs, image):
    with pytest.raises(PropertyConflict) as refused:
        derived(specs, image)
    named = refused.value.kwargs["properties"]
    given = {**specs, **image, "flavor.vcpus": "4", "flavor.memory_mb": "4096"}
    assert named.items() <= given.items()
    assert named.keys() & (specs.keys() | image.keys())
