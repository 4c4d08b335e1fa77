"""The sockets, cores and threads that a guest sees."""

import pytest

from rtagent.errors import FlavorImageConflict
from rtagent.numa.requirements import numa_requirements


def derived(specs, image, vcpus=8):
    return numa_requirements(vcpus, 4096, specs, image).cpu_topology


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
    seen = derived(specs, image)
    assert (seen.sockets, seen.cores, seen.threads) == counts


@pytest.mark.parametrize(
    ("specs", "image"),
    [
        ({"hw:cpu_max_cores": "2"}, {"hw_cpu_max_cores": "3"}),
        ({"hw:cpu_max_sockets": "2"}, {"hw_cpu_sockets": "4"}),
        ({}, {"hw_cpu_max_threads": "1", "hw_cpu_threads": "2"}),
    ],
)
def test_image_must_stay_within_the_limits(specs, image):
    with pytest.raises(FlavorImageConflict) as refused:
        derived(specs, image, vcpus=4)
    assert refused.value.kwargs["properties"] == {**specs, **image}
