"""Persistent memory: the option and the extra spec."""

import pytest

from rtagent.errors import ConfigError, InvalidPciRequest
from rtagent.pci.pmem import pmem_inventories, pmem_request
from tests.support.pci_hosts import flavor


def test_namespaces_are_grouped_by_label():
    inventories = pmem_inventories(["6GB:ns0|ns1", " small : ns2 ", "6GB:ns3"])
    assert [(each.resource_class, each.identifiers) for each in inventories] == [
        ("CUSTOM_PMEM_NAMESPACE_6GB", ("ns0", "ns1", "ns3")),
        ("CUSTOM_PMEM_NAMESPACE_SMALL", ("ns2",)),
    ]
    assert pmem_inventories([]) == ()


def test_class_of_a_label_has_the_name_that_nova_gives_it():
    (inventory,) = pmem_inventories(["a__b:ns0"])
    assert inventory.resource_class == "CUSTOM_PMEM_NAMESPACE_A_B"


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        (["6GB"], "must be LABEL:namespace"),
        (["6GB:"], "must be LABEL:namespace"),
        ([":ns0"], "must be LABEL:namespace"),
        (["6 GB:ns0"], "must be LABEL:namespace"),
        (["6GB:ns0|"], "must be LABEL:namespace"),
        (["6GB:ns0|ns0"], "namespace ns0 is listed twice"),
        (["6GB:ns0", "7GB:ns1|ns0"], "namespace ns0 is listed twice"),
    ],
)
def test_invalid_option_is_an_error(values, rule):
    with pytest.raises(ConfigError, match=rule):
        pmem_inventories(values)


def test_flavor_requests_namespaces_by_label():
    requested = pmem_request(flavor(**{"hw:pmem": "6GB, 6GB,small"}))
    assert requested == {"CUSTOM_PMEM_NAMESPACE_6GB": 2, "CUSTOM_PMEM_NAMESPACE_SMALL": 1}
    assert pmem_request(flavor()) == {}
    with pytest.raises(InvalidPciRequest, match="hw:pmem = 6GB,: must be"):
        pmem_request(flavor(**{"hw:pmem": "6GB,"}))
