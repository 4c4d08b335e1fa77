"""CPU, thread and emulator policies, and masks, of a flavor and an image."""

import pytest

from rtagent.errors import FlavorImageConflict
from rtagent.numa.requirements import numa_requirements


def derived(specs=None, image=None):
    return numa_requirements(4, 4096, specs or {}, image or {})


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
    ("specs", "image"),
    [
        ({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"}),
        ({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "mixed"}),
        ({"hw:cpu_policy": "mixed"}, {"hw_cpu_policy": "dedicated"}),
        ({"hw:cpu_thread_policy": "isolate"}, {"hw_cpu_thread_policy": "require"}),
        ({"hw:cpu_thread_policy": "isolate"}, {"hw_cpu_thread_policy": "prefer"}),
    ],
)
def test_image_must_not_override_the_flavor(specs, image):
    with pytest.raises(FlavorImageConflict) as refused:
        derived(specs, image)
    assert refused.value.kwargs["properties"] == {**specs, **image}
