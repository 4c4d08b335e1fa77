"""ImagePropertiesFilter: architecture, hypervisor, VM mode, version and address bits."""

import pytest

from rtagent.errors import InvalidRequest
from rtagent.scheduler.filters.image_properties import ImagePropertiesFilter
from tests.support.host_states import host_state
from tests.support.scheduling import passes, scheduler_request, why_not

GUESTS = (("x86_64", "kvm", "hvm"), ("i686", "xen", "hvm"))
CPUS = {"maxphysaddr": {"bits": 42}}
HOST = host_state(supported_instances=GUESTS, hypervisor_version=8002002, cpu_info=CPUS)
BARE = host_state(supported_instances=(), hypervisor_version=0, cpu_info={})


@pytest.mark.parametrize(
    ("image", "passing"),
    [
        ({}, True),
        ({"hw_architecture": "x86_64"}, True),
        ({"hw_architecture": "AMD64"}, True),
        ({"hw_architecture": "i386"}, True),
        ({"hw_architecture": "aarch64"}, False),
        ({"img_hv_type": "kvm"}, True),
        ({"hw_vm_mode": "hv"}, True),
        ({"hw_vm_mode": "exe"}, False),
        ({"hw_architecture": "x86_64", "img_hv_type": "kvm", "hw_vm_mode": "hvm"}, True),
        ({"hw_architecture": "x86_64", "img_hv_type": "xen"}, False),
        ({"hw_vm_mode": "xen"}, False),
        ({"architecture": "aarch64", "hw_architecture": "x86_64"}, True),
        ({"hypervisor_type": "lxc"}, False),
        ({"vm_mode": "exe"}, False),
        ({"img_hv_type": "kvm", "img_hv_requested_version": ">=8.2"}, True),
        ({"img_hv_type": "kvm", "img_hv_requested_version": ">=8,<8.2"}, False),
        ({"img_hv_type": "kvm", "hypervisor_version_requires": ">9"}, False),
        ({"img_hv_requested_version": ">9"}, False),
        ({"hw_maxphysaddr_bits": "42"}, True),
        ({"hw_maxphysaddr_bits": "43"}, False),
        ({"hw_architecture": ""}, True),
    ],
)
def test_a_host_that_cannot_run_the_image_is_refused(image, passing):
    assert passes(ImagePropertiesFilter, HOST, scheduler_request(image=image)) is passing


@pytest.mark.parametrize(
    ("image", "passing"),
    [
        ({}, True),
        ({"hw_architecture": "x86_64"}, False),
        ({"img_hv_requested_version": ">9"}, True),
        ({"hw_maxphysaddr_bits": "43"}, True),
    ],
)
def test_a_host_that_reports_nothing_supports_no_kind_of_guest(image, passing):
    assert passes(ImagePropertiesFilter, BARE, scheduler_request(image=image)) is passing


def test_the_default_architecture_is_for_images_without_one():
    default = {"image_properties_default_architecture": "aarch64"}
    refused = why_not(ImagePropertiesFilter, HOST, scheduler_request(), **default)
    assert refused == "it does not support guests with aarch64"
    request = scheduler_request(image={"hw_architecture": "x86_64"})
    assert passes(ImagePropertiesFilter, HOST, request, **default)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hw_architecture", "x87"),
        ("img_hv_type", "kwm"),
        ("hw_vm_mode", "hvn"),
        ("img_hv_requested_version", "8"),
        ("img_hv_requested_version", ">=x"),
        ("hw_maxphysaddr_bits", "many"),
        ("hw_maxphysaddr_bits", "-1"),
        ("hw_maxphysaddr_bits", "9" * 5000),
    ],
)
def test_an_invalid_property_is_an_error_of_the_request(name, value):
    with pytest.raises(InvalidRequest) as caught:
        passes(ImagePropertiesFilter, HOST, scheduler_request(image={name: value}))
    assert f"$.request_spec.image.properties.{name}: must be" in str(caught.value)
