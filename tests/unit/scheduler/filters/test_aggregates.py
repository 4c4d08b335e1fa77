"""Filters by the metadata of aggregates: for extra specs, images, tenants, flavors."""

import pytest

from rtagent.scheduler.filters.aggregates import (
    AggregateImagePropertiesIsolation,
    AggregateInstanceExtraSpecsFilter,
    AggregateMultiTenancyIsolation,
    AggregateTypeAffinityFilter,
)
from tests.support.host_states import aggregate, host_state
from tests.support.scheduling import passes, scheduler_request, why_not

FAST = aggregate("fast", ssd="true", level="3, 5", **{"disk:kind": "ssd"})
HOST = host_state(aggregates=[FAST, aggregate("slow", level="1")])
SCOPE = "aggregate_instance_extra_specs"


@pytest.mark.parametrize(
    ("extra_specs", "passing"),
    [
        ({}, True),
        ({f"{SCOPE}:ssd": "true"}, True),
        ({f"{SCOPE}:ssd": "false"}, False),
        ({"ssd": "true"}, True),
        ({f"{SCOPE}:disk:kind": "ssd"}, True),
        ({"missing": "true"}, False),
        ({f"{SCOPE}:level": ">= 5"}, True),
        ({f"{SCOPE}:ssd": "true", f"{SCOPE}:level": "2"}, False),
        ({"hw:cpu_policy": "dedicated"}, True),
    ],
)
def test_one_value_of_the_aggregates_has_to_satisfy_the_rule(extra_specs, passing):
    request = scheduler_request(extra_specs=extra_specs)
    assert passes(AggregateInstanceExtraSpecsFilter, HOST, request) is passing


def test_a_value_that_is_no_number_sets_the_host_aside():
    host = host_state(aggregates=[aggregate("a", level="9"), aggregate("b", level="many")])
    request = scheduler_request(extra_specs={f"{SCOPE}:level": ">= 1"})
    refused = why_not(AggregateInstanceExtraSpecsFilter, host, request)
    assert refused == "level has to be >= 1, and a value is no number: 9, many"


def test_a_rejection_says_what_the_aggregates_have():
    request = scheduler_request(extra_specs={f"{SCOPE}:level": ">= 6"})
    refused = why_not(AggregateInstanceExtraSpecsFilter, HOST, request)
    assert refused == "level has to be >= 6, and the aggregates have 1, 3, 5"


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


BLUE = aggregate("a", filter_tenant_id="blue, green", ssd="true")
ISOLATED = host_state(aggregates=[BLUE, aggregate("b", filter_tenant_id2="red")])


@pytest.mark.parametrize(
    ("project", "passing"), [("blue", True), ("red", True), ("yellow", False), (None, False)]
)
def test_only_the_tenants_of_the_aggregates_get_the_host(project, passing):
    request = scheduler_request(project_id=project)
    refused = why_not(AggregateMultiTenancyIsolation, ISOLATED, request)
    why = f"its aggregates are for other tenants than {project or 'none'}"
    assert refused == ("" if passing else why)


@pytest.mark.parametrize(
    "kind",
    [
        AggregateImagePropertiesIsolation,
        AggregateMultiTenancyIsolation,
        AggregateTypeAffinityFilter,
    ],
)
@pytest.mark.parametrize("aggregates", [(), (aggregate("a", ssd="true"),)])
def test_a_host_that_is_not_isolated_is_for_everyone(kind, aggregates):
    request = scheduler_request(image={"os_distro": "debian"}, project_id="yellow", flavor="m2")
    assert passes(kind, host_state(aggregates=aggregates), request)


OF_M1, OF_C = aggregate("a", instance_type="m1.small, m1.large"), aggregate("b", instance_type="c")
FLAVORED = host_state(aggregates=[OF_M1, OF_C])


def test_a_rejection_names_the_flavors():
    assert passes(AggregateTypeAffinityFilter, FLAVORED, scheduler_request(flavor="m1.large"))
    refused = why_not(AggregateTypeAffinityFilter, FLAVORED, scheduler_request(flavor="m2"))
    assert refused == "its aggregates are for the flavors c, m1.large, m1.small"
