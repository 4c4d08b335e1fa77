"""Persistent memory."""

import pytest

from rtagent.errors import ConfigError, InvalidPciRequest
from rtagent.pci.pmem import pmem_inventories, pmem_request
from tests.pci_hosts import flavor


def test_namespaces_under_labels():
    made = pmem_inventories(["6GB:ns0|ns1", " small : ns2 ", "6GB:ns3"])
    assert [(each.resource_class, each.identifiers) for each in made] == [
        ("CUSTOM_PMEM_NAMESPACE_6GB", ("ns0", "ns1", "ns3")),
        ("CUSTOM_PMEM_NAMESPACE_SMALL", ("ns2",)),
    ]
    assert pmem_inventories([]) == ()


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        (["6GB"], "must be LABEL:namespace"),
        (["6GB:"], "must be LABEL:namespace"),
        ([":ns0"], "must be LABEL:namespace"),
        (["6 GB:ns0"], "must be LABEL:namespace"),
        (["6GB:ns0|"], "must be LABEL:namespace"),
        (["6GB:ns0|ns0"], "namespace ns0 is there twice"),
        (["6GB:ns0", "7GB:ns1|ns0"], "namespace ns0 is there twice"),
    ],
)
def test_mistakes(values, rule):
    with pytest.raises(ConfigError, match=rule):
        pmem_inventories(values)


def test_what_a_flavor_asks_for():
    asked = pmem_request(flavor(**{"hw:pmem": "6GB, 6GB,small"}))
    assert asked == {"CUSTOM_PMEM_NAMESPACE_6GB": 2, "CUSTOM_PMEM_NAMESPACE_SMALL": 1}
    assert pmem_request(flavor()) == {}
    with pytest.raises(InvalidPciRequest, match="hw:pmem = 6GB,: must be"):
        pmem_request(flavor(**{"hw:pmem": "6GB,"}))
