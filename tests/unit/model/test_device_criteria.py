"""Criteria of requests, compared with the tags of devices."""

import pytest

from rtagent.model.device import Tags
from rtagent.pci.requests import device_requests
from tests.support.pci_hosts import GPU_0, flavor, gpu, port, record


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
