"""AggregateImagePropertiesIsolation: aggregates for images with certain properties."""

from __future__ import annotations

import pytest

from rtagent.scheduler.filters.aggregates import AggregateImagePropertiesIsolation
from tests.support.host_states import aggregate, host_state
from tests.support.scheduling import passes, scheduler_request, why_not

WINDOWS = host_state(
    aggregates=[aggregate("w", os_distro="windows, win10"), aggregate("l", **{"img.tier": "1"})]
)


@pytest.mark.parametrize(
    ("image", "passing"),
    [
        ({}, True),
        ({"os_distro": "windows"}, True),
        ({"os_distro": "win10"}, True),
        ({"os_distro": "debian"}, False),
        ({"os_distro": ""}, True),
        ({"hw_disk_bus": "virtio"}, True),
        ({"img.tier": "2"}, False),
    ],
)
def test_a_property_that_aggregates_have_must_be_one_of_their_values(image, passing):
    request = scheduler_request(image=image)
    assert passes(AggregateImagePropertiesIsolation, WINDOWS, request) is passing


def test_a_host_without_aggregates_takes_every_image():
    request = scheduler_request(image={"os_distro": "debian"})
    assert passes(AggregateImagePropertiesIsolation, host_state(), request)


def test_a_namespace_limits_the_keys():
    request = scheduler_request(image={"os_distro": "debian", "img.tier": "1"})
    options = {"aggregate_image_properties_isolation_namespace": "img"}
    assert passes(AggregateImagePropertiesIsolation, WINDOWS, request, **options)
    options["aggregate_image_properties_isolation_separator"] = "_"
    assert passes(AggregateImagePropertiesIsolation, WINDOWS, request, **options)
    request = scheduler_request(image={"img.tier": "2"})
    options["aggregate_image_properties_isolation_separator"] = "."
    refused = why_not(AggregateImagePropertiesIsolation, WINDOWS, request, **options)
    assert refused == "its aggregates are for img.tier = 1, and the image has 2"
