"""Device requests from flavors and documents, and the devices that meet them."""

import pytest

from rtagent.errors import InvalidPciRequest, PciRequestAliasNotDefined
from rtagent.model.device import Tags
from rtagent.model.request import PciRequest
from rtagent.pci.candidates import suits
from rtagent.pci.requests import device_requests
from tests.support.pci_hosts import ALIASES, GPU_0, PF_0, flavor, gpu, nic, port, record, vf


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


def test_documents_request_devices_by_alias_or_spec():
    documents = (PciRequest(count=1, alias_name="gpu"), port("p1", physical_network=None))
    requests = device_requests(flavor("vf:1,vf:2"), documents, ALIASES, None)
    functions = [("vf", "vf", 1, "legacy"), ("vf#2", "vf", 2, "legacy")]
    others = [("gpu", "gpu", 1, "legacy"), ("p1", None, 1, "legacy")]
    assert summary(requests) == [*functions, *others]
    assert requests[3].alternatives[0].physical_network is None
    assert (requests[3].source, requests[3].requester_id) == ("neutron_port", "p1")


@pytest.mark.parametrize("value", ["gpu", ":1", "gpu:1,", "gpu:-1", "gpu:0", "gpu:99999999999"])
def test_invalid_extra_spec_is_an_error(value):
    with pytest.raises(InvalidPciRequest, match=r"name:count|from 1 to") as caught:
        device_requests(flavor(value), (), ALIASES, None)
    assert caught.value.kwargs["where"] == "pci_passthrough:alias"


def test_unknown_alias_is_an_error_that_lists_the_known_ones():
    with pytest.raises(PciRequestAliasNotDefined, match=r"fpga: .* \(defined: gpu, pf, vf\)"):
        device_requests(flavor("fpga:1"), (), ALIASES, None)
    with pytest.raises(PciRequestAliasNotDefined, match="pci_requests of r1 = fpga"):
        document = PciRequest(count=1, alias_name="fpga", request_id="r1")
        device_requests(flavor(), (document,), ALIASES, None)


def test_document_that_contradicts_the_flavor_is_an_error():
    with pytest.raises(InvalidPciRequest, match="the flavor requests 2 of that alias"):
        device_requests(flavor("gpu:2"), (PciRequest(count=1, alias_name="gpu"),), ALIASES, None)


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
        ({"physical_network": None}, Tags(physical_network=None), True),
        ({"physical_network": None}, Tags(), False),
        ({"physical_network": "physnet1"}, Tags(physical_network=None), False),
        ({"trusted": "True"}, Tags(trusted=True), True),
        ({"trusted": "true"}, Tags(), False),
        ({"remote_managed": "True"}, Tags(remote_managed=True), True),
        ({}, Tags(remote_managed=True), False),
        ({"live_migratable": "yes"}, Tags(live_migratable=True), True),
        ({"live_migratable": "no"}, Tags(live_migratable=True), False),
        ({}, Tags(live_migratable=True), True),
        ({"resource_class": "pci_10de_13f1"}, Tags(), True),
        ({"resource_class": "pci_10de_13f1"}, Tags(resource_class="CUSTOM_BIG"), False),
        ({"traits": "a"}, Tags(traits=frozenset({"CUSTOM_A", "CUSTOM_B"})), True),
        ({"traits": "HW_PCI_ONE_TIME_USE"}, Tags(one_time_use=True), True),
        ({"traits": "HW_PCI_ONE_TIME_USE"}, Tags(), False),
        ({"traits": "a,c"}, Tags(traits=frozenset({"CUSTOM_A", "CUSTOM_B"})), False),
        ({"parent_ifname": "eth0"}, Tags(), False),
    ],
)
def test_criteria_match_tags(spec, tags, expected):
    (request,) = device_requests(flavor(), (port(**spec),), {}, None)
    (criteria,) = request.alternatives
    assert criteria.matches(record([gpu()], tags)[GPU_0]) is expected


@pytest.mark.parametrize(
    ("spec", "addresses"),
    [
        ({"remote_managed": "False"}, {vf(0)}),
        ({"remote_managed": "False", "dev_type": "type-PF"}, {PF_0}),
        ({}, {GPU_0, vf(0)}),
    ],
)
def test_port_that_is_not_managed_remotely_gets_no_plain_device(spec, addresses):
    (request,) = device_requests(None, (port(physical_network="net", **spec),), {}, None)
    devices = record([gpu(), *nic(vfs=1)], Tags(physical_network="net"))
    assert {a for a, device in devices.items() if suits(device, request.alternatives)} == addresses
