"""Device requests from flavors and documents."""

import msgspec
import pytest

from rtagent.errors import InvalidPciRequest, InvalidRequest, PciRequestAliasNotDefined
from rtagent.model.device import DeviceCriteria
from rtagent.model.request import PciRequest
from rtagent.pci.requests import device_requests, requests_of_move
from tests.support.pci_hosts import ALIASES, flavor, port


def summary(requests):
    return [(r.request_id, r.alias_name, r.count, r.numa_policy) for r in requests]


def test_flavor_requests_devices_by_alias():
    requests = device_requests(flavor("gpu:2, vf:1,gpu:1"), (), ALIASES, None)
    assert summary(requests) == [
        ("gpu", "gpu", 2, "legacy"),
        ("vf", "vf", 1, "legacy"),
        ("gpu#2", "gpu", 1, "legacy"),
    ]
    assert requests[0].alternatives == ALIASES["gpu"].alternatives
    assert device_requests(flavor(), (), ALIASES, None) == ()


def test_documents_request_devices_by_alias_or_spec():
    by_alias = PciRequest(count=1, alias_name="gpu")
    requests = device_requests(
        flavor(), (by_alias, port("p1", physical_network=None)), ALIASES, None
    )
    assert summary(requests) == [("gpu", "gpu", 1, "legacy"), ("p1", None, 1, "legacy")]
    assert requests[1].alternatives[0].physical_network is None
    assert (requests[1].source, requests[1].requester_id) == ("neutron_port", "p1")


def test_null_physical_network_is_a_tunnelled_network():
    document = {"count": 1, "request_id": "p1", "spec": [{"physical_network": None}]}
    parsed = msgspec.convert(document, PciRequest)
    (request,) = device_requests(flavor(), (parsed,), ALIASES, None)
    assert request.alternatives[0].physical_network is None


def test_names_and_ids_of_a_document_are_those_of_an_alias():
    written = {"vendor_id": "0x10de", "product_id": "0X13F1", "resource_class": "", "traits": ""}
    (request,) = device_requests(flavor(), (port("p1", **written),), ALIASES, None)
    assert request.alternatives == (DeviceCriteria(vendor_id="10de", product_id="13f1"),)
    named = {"resource_class": "custom-gpu", "traits": "hw_gpu_api_vulkan"}
    (request,) = device_requests(flavor(), (port("p1", **named),), ALIASES, None)
    assert request.alternatives[0].resource_class == "CUSTOM_CUSTOM_GPU"
    assert request.alternatives[0].traits == {"CUSTOM_HW_GPU_API_VULKAN"}


def test_document_translated_from_the_flavor_is_not_counted_again():
    translated = PciRequest(count=2, alias_name="gpu", request_id="r1", numa_policy="required")
    requests = device_requests(flavor("gpu:2"), (translated, port("p1")), ALIASES, None)
    assert summary(requests) == [("r1", "gpu", 2, "required"), ("p1", None, 1, "legacy")]


def test_numa_policy_precedence_is_document_then_flavor_then_alias():
    documents = (port("p1"), port("p2", policy="required"))
    requests = device_requests(flavor("gpu:1"), documents, ALIASES, "socket")
    assert [r.numa_policy for r in requests] == ["socket", "socket", "required"]


def test_move_requests_the_new_flavors_devices_and_those_of_the_ports():
    documents = (PciRequest(count=1, alias_name="gpu", request_id="old"), port("p1"))
    requests = requests_of_move(flavor("gpu:2"), documents, ALIASES, None)
    assert summary(requests) == [("gpu", "gpu", 2, "legacy"), ("p1", None, 1, "legacy")]


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ("gpu", "name:count"),
        ("gpu:", "name:count"),
        (":1", "name:count"),
        ("gpu:1,", "name:count"),
        ("gpu:one", "name:count"),
        ("gpu:-1", "name:count"),
        ("gpu:0", "from 1 to"),
        ("gpu:99999999999", "from 1 to"),
        ("gpu:4294967296", "from 1 to"),
    ],
)
def test_invalid_extra_spec_is_an_error(value, rule):
    with pytest.raises(InvalidPciRequest, match=rule) as caught:
        device_requests(flavor(value), (), ALIASES, None)
    assert caught.value.kwargs["where"] == "pci_passthrough:alias"


def test_unknown_alias_is_an_error_that_lists_the_known_ones():
    with pytest.raises(PciRequestAliasNotDefined) as caught:
        device_requests(flavor("fpga:1"), (), ALIASES, None)
    assert isinstance(caught.value, InvalidRequest)
    assert caught.value.message == (
        "pci_passthrough:alias = fpga: [pci] alias of this host does not define it"
        " (defined: gpu, pf, vf)"
    )
    with pytest.raises(PciRequestAliasNotDefined, match="pci_requests of r1 = fpga"):
        document = PciRequest(count=1, alias_name="fpga", request_id="r1")
        device_requests(flavor(), (document,), ALIASES, None)


@pytest.mark.parametrize(
    ("document", "rule"),
    [
        (PciRequest(count=1), "needs an alias_name or a spec"),
        (port(colour="red"), "colour: unknown key; the keys are"),
        (port(trusted="maybe"), "trusted: must be yes or no"),
        (port(dev_type="PF"), "dev_type: must be one of"),
        (port(vendor_id=None), "vendor_id: must be a string"),
    ],
)
def test_invalid_document_is_an_error(document, rule):
    with pytest.raises(InvalidPciRequest, match=rule):
        device_requests(flavor(), (document,), ALIASES, None)


def test_document_that_contradicts_the_flavor_is_an_error():
    with pytest.raises(InvalidPciRequest, match="the flavor requests 2 of that alias"):
        document = PciRequest(count=1, alias_name="gpu")
        device_requests(flavor("gpu:2"), (document,), ALIASES, None)
