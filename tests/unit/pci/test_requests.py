"""Device requests from flavors and documents, and the devices that meet them."""

import pytest

from rtagent.errors import InvalidPciRequest
from rtagent.model.device import Tags
from rtagent.model.request import PciRequest
from rtagent.pci.requests import device_requests
from tests.support.pci_hosts import ALIASES, GPU_0, flavor, gpu, port, record


def summary(requests):
    return [(r.request_id, r.alias_name, r.count, r.numa_policy) for r in requests]


def test_document_translated_from_the_flavor_is_not_counted_again():
    translated = PciRequest(count=2, alias_name="gpu", request_id="r1", numa_policy="required")
    requests = device_requests(flavor("gpu:2"), (translated, port("p1")), ALIASES, None)
    assert summary(requests) == [("r1", "gpu", 2, "required"), ("p1", None, 1, "legacy")]


def test_numa_policy_precedence_is_document_then_flavor_then_alias():
    documents = (port("p1"), port("p2", policy="required"))
    requests = device_requests(flavor("gpu:1"), documents, ALIASES, "socket")
    assert [r.numa_policy for r in requests] == ["socket", "socket", "required"]


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


# --- criteria, compared with the tags of devices ---


@pytest.mark.parametrize(
    ("spec", "tags", "expected"),
    [
        ({}, Tags(), True),
        ({"physical_network": "PhysNet1"}, Tags(physical_network="physnet1"), True),
        ({"physical_network": "physnet2"}, Tags(physical_network="physnet1"), False),
        ({"physical_network": "physnet1"}, Tags(), False),
        ({"physical_network": None}, Tags(physical_network=None), True),
        ({"physical_network": None}, Tags(), False),
        ({"physical_network": "physnet1"}, Tags(physical_network=None), False),
        ({"trusted": "True"}, Tags(trusted=True), True),
        ({"trusted": "true"}, Tags(), False),
        ({"remote_managed": "False"}, Tags(), True),
        ({"remote_managed": "True"}, Tags(remote_managed=True), True),
        ({"remote_managed": "True"}, Tags(), False),
        ({}, Tags(remote_managed=True), False),
        ({"live_migratable": "yes"}, Tags(live_migratable=True), True),
        ({"live_migratable": "yes"}, Tags(), False),
        ({"live_migratable": "no"}, Tags(live_migratable=True), False),
        ({}, Tags(live_migratable=True), True),
        ({"resource_class": "pci_10de_13f1"}, Tags(), True),
        ({"resource_class": "big"}, Tags(resource_class="CUSTOM_BIG"), True),
        ({"resource_class": "pci_10de_13f1"}, Tags(resource_class="CUSTOM_BIG"), False),
        ({"traits": "a"}, Tags(traits=frozenset({"CUSTOM_A", "CUSTOM_B"})), True),
        ({"traits": "a,c"}, Tags(traits=frozenset({"CUSTOM_A", "CUSTOM_B"})), False),
        ({"parent_ifname": "eth0"}, Tags(), False),
        ({"product_id": "13F1"}, Tags(), True),
    ],
)
def test_criteria_match_tags(spec, tags, expected):
    (request,) = device_requests(flavor(), (port(**spec),), {}, None)
    (criteria,) = request.alternatives
    assert criteria.matches(record([gpu()], tags)[GPU_0]) is expected
