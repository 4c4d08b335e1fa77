"""Parsing of ``[pci] alias``."""

import json

import pytest

from rtagent.errors import PciInvalidAlias
from rtagent.model.device import DeviceCriteria
from rtagent.pci.aliases import parse_aliases
from tests.support.pci_hosts import GPU_IDS


def test_all_keys_are_parsed():
    content = {
        "name": " gpu ",
        **GPU_IDS,
        "device_type": "type-PCI",
        "numa_policy": "required",
        "resource_class": "gpu",
        "traits": "fast",
        "live_migratable": "no",
        "capability_type": "pci",
    }
    alias = parse_aliases([json.dumps(content)])["gpu"]
    assert alias.numa_policy == "required"
    assert alias.alternatives == (
        DeviceCriteria(
            **GPU_IDS,
            dev_type="type-PCI",
            resource_class="CUSTOM_GPU",
            traits=frozenset({"CUSTOM_FAST"}),
            live_migratable=False,
        ),
    )


def test_ids_may_have_a_prefix_and_names_may_be_empty():
    content = {"name": "qat", "vendor_id": "0x8086", "product_id": "0x37C8"}
    alias = parse_aliases([json.dumps({**content, "resource_class": "", "traits": ""})])["qat"]
    assert alias.alternatives == (DeviceCriteria(vendor_id="8086", product_id="37c8"),)


def test_repeated_name_adds_an_alternative():
    values = [json.dumps({"name": "qat", "vendor_id": "8086", "product_id": p}) for p in "12"]
    alias = parse_aliases(values)["qat"]
    assert [criteria.product_id for criteria in alias.alternatives] == ["0001", "0002"]
    assert alias.numa_policy == "legacy"


@pytest.mark.parametrize(
    ("values", "index", "key", "rule"),
    [
        (["x"], "0", "the document", "malformed|invalid"),
        ([{"vendor_id": "1", "product_id": "1"}], "0", "the document", "has no name"),
        ([{"name": "a"}], "0", "the document", "needs vendor_id and product_id"),
        ([{"name": "a", "vendor_id": "1"}], "0", "the document", "needs vendor_id"),
        ([{"name": "a", "resource_class": ""}], "0", "the document", "needs vendor_id"),
        ([{"name": " ", "resource_class": "a"}], "0", "name", "not empty"),
        ([{"name": "a", **GPU_IDS, "dev_type": "type-PF"}], "0", "dev_type", "the keys are"),
        ([{"name": "a", **GPU_IDS, "device_type": "PF"}], "0", "device_type", "one of type-PCI"),
        ([{"name": "a", **GPU_IDS, "device_type": None}], "0", "device_type", "one of"),
        ([{"name": "a", **GPU_IDS, "numa_policy": "any"}], "0", "numa_policy", "one of"),
        ([{"name": "a", **GPU_IDS, "capability_type": "usb"}], "0", "capability_type", "one of"),
        (
            [{"name": "a", **GPU_IDS}, {"name": "a", **GPU_IDS, "numa_policy": "socket"}],
            "1",
            "numa_policy",
            "already has the policy legacy",
        ),
        (
            [
                {"name": "a", **GPU_IDS, "device_type": "type-PF"},
                {"name": "a", **GPU_IDS, "device_type": "type-VF"},
            ],
            "1",
            "device_type",
            "already has the type type-PF",
        ),
    ],
)
def test_error_names_index_key_and_rule(values, index, key, rule):
    texts = [each if isinstance(each, str) else json.dumps(each) for each in values]
    with pytest.raises(PciInvalidAlias, match=rule) as caught:
        parse_aliases(texts)
    assert (caught.value.kwargs["index"], caught.value.kwargs["key"]) == (index, key)
    assert caught.value.message.startswith(f"[pci] alias {index}: {key} = ")
