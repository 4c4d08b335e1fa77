"""Parsing of ``[pci] device_spec`` and ``alias``, and checks against the devices of a host."""

import json

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from rtagent.errors import ConfigError, PciConfigInvalidSpec, PciInvalidAlias
from rtagent.model.device import SRIOV_PF, SRIOV_VF, Device, DeviceCriteria, Tags, find_spec
from rtagent.pci.specs import device_errors, parse_aliases, parse_specs, spec_errors
from tests.support.pci_hosts import GPU_0, GPU_IDS, PF_0, gpu, nic, vf

PF, FIRST, *_ = nic()
CARD = Device(address="0000:03:00.2", vendor_id="15b3", product_id="a2d6", card_serial_number="MT1")
#: The address of the physical function, as regular expressions.
WHOLE = {"domain": "0000", "bus": "20", "slot": "00", "function": "0"}


def spec(**content):
    return parse_specs([json.dumps(content)])[0]


@pytest.mark.parametrize(
    ("content", "device", "expected"),
    [
        ({}, gpu(), True),
        ({"vendor_id": " 10DE ", "product_id": " * "}, gpu(), True),
        ({"product_id": "13f2"}, gpu(), False),
        ({"address": "*:09:*.*"}, gpu(), False),
        # The address or interface of a physical function also selects its virtual functions.
        ({"address": PF_0}, FIRST, True),
        ({"address": "*:20:00.0"}, FIRST, False),
        ({"address": WHOLE}, FIRST, True),
        ({"address": {**WHOLE, "bus": "2"}}, FIRST, False),
        ({"devname": "p20"}, FIRST, True),
        ({"devname": "pa0"}, FIRST, False),
        # Remote management needs the card's serial number.
        ({"remote_managed": "true", "vendor_id": "15b3"}, CARD, True),
        ({"remote_managed": "true"}, FIRST, False),
    ],
)
def test_specification_matches_device(content, device, expected):
    assert spec(**content).matches(device) is expected


def test_first_matching_specification_applies():
    first, second = {"address": GPU_0}, [GPU_IDS, {"physical_network": "net"}]
    specs = parse_specs([json.dumps(first), json.dumps(second)])
    found = (find_spec(specs, device).index for device in (gpu(), gpu("0000:09:00.0"), PF))
    assert [*found] == ["0", "1[0]", "1[1]"]


def test_tags_are_parsed():
    assert spec(vendor_id="10de").tags == Tags()
    assert spec().tags.physical_network is UNSET
    assert spec(physical_network=None).tags.physical_network is None
    words = {"trusted": "True", "managed": "No", "live_migratable": 1, "one_time_use": True}
    names = {"physical_network": "net", "resource_class": "my gpu", "traits": "my-own,custom_x"}
    assert spec(**words, **names, remote_managed="FALSE").tags == Tags(
        physical_network="net",
        trusted=True,
        managed=False,
        live_migratable=True,
        one_time_use=True,
        resource_class="CUSTOM_MY_GPU",
        traits=frozenset({"CUSTOM_MY_OWN", "CUSTOM_X"}),
    )
    assert spec(resource_class="", traits="").tags == Tags()


@pytest.mark.parametrize(
    ("values", "index", "key", "rule"),
    [
        (["{"], "0", "the document", "JSON|malformed|truncated"),
        (['"text"'], "0", "the document", "must be a JSON object"),
        (['{"vendor": "10de"}'], "0", "vendor", "unknown key; the keys are vendor_id"),
        (["{}", '{"vendor_id": 10}'], "1", "vendor_id", "must be a string"),
        (['{"vendor_id": "10dex"}'], "0", "vendor_id", "four hexadecimal digits"),
        (['{"address": "*:100:*.*"}'], "0", "address", "bus: 100 is more than FF"),
        (['{"address": 5}'], "0", "address", "must be a string, or an object"),
        (['{"address": "*", "devname": "e"}'], "0", "devname", "cannot be combined with address"),
        (['{"devname": ""}'], "0", "devname", "not empty"),
        (['{"trusted": "perhaps"}'], "0", "trusted", "yes or no"),
        (['{"physical_network": ""}'], "0", "physical_network", "not empty; null is a tunnelled"),
        (
            ['{"address": {"bus": "a{99999999999}"}}'],
            "0",
            "address",
            "the repetition number is too",
        ),
        (["[" * 100_000], "0", "the document", "must be a JSON object, or a list of them: maximum"),
        ([""], "0", "the document", "must be a JSON object, or a list of them: Input data was"),
        (['{"physical_network": 1}'], "0", "physical_network", "must be a string"),
        (['{"resource_class": "' + "x" * 249 + '"}'], "0", "resource_class", "1 to 248"),
    ],
)
def test_error_names_index_key_and_rule(values, index, key, rule):
    with pytest.raises(PciConfigInvalidSpec, match=rule) as caught:
        parse_specs(values)
    error = caught.value
    assert isinstance(error, ConfigError)
    assert (error.kwargs["index"], error.kwargs["key"]) == (index, key)
    assert error.message.startswith(f"[pci] device_spec {index}: {key} = ")


# -- remote_managed: virtual functions alone -------------------------------------------------------

#: A physical function without a serial number.
MANAGED = Device(
    address=PF_0, vendor_id="15b3", product_id="a2d6", dev_type=SRIOV_PF, net_name="p0"
)

#: The address of a virtual function of it.
FUNCTION = "0000:20:00.2"


@pytest.mark.parametrize(
    ("content", "key"),
    [
        # Without the product it stands for the physical function, too, if it is one.
        ({"address": PF_0, "product_id": "*"}, "remote_managed"),
        ({"devname": "p0"}, "remote_managed"),
        ({"product_id": "101e", "one_time_use": "yes"}, "one_time_use"),
    ],
)
def test_remote_managed_must_mean_virtual_functions_on_any_host(content, key):
    with pytest.raises(PciConfigInvalidSpec, match=r"only for|not supported for") as caught:
        spec(remote_managed="true", **content)
    assert caught.value.kwargs["key"] == key


def test_devices_that_cannot_have_the_tags_are_errors():
    once, remote = ({"address": PF_0, "one_time_use": "yes"}, {"remote_managed": "true"})
    specs = parse_specs([json.dumps(once), json.dumps(remote)])
    present = [PF, FIRST, gpu(), CARD, replace(MANAGED, address=GPU_0, card_serial_number="1")]
    assert [each.message for each in device_errors(specs, present)] == [
        "[pci] device_spec 0: one_time_use = yes: is not supported for virtual functions;"
        f" {vf(0)} is one",
        "[pci] device_spec 1: remote_managed = yes: is supported only for virtual functions;"
        f" {GPU_0} is a physical function",
    ]


@pytest.mark.parametrize(
    ("vendor", "product", "key", "value", "address", "its_own"),
    [
        ("8086", "101e", "vendor_id", "8086", PF_0, "15b3"),
        ("15b3", "1", "product_id", "0001", FUNCTION, "101e"),
    ],
)
def test_a_named_remote_managed_device_must_have_the_vendor_and_the_product(
    vendor, product, key, value, address, its_own
):
    function = replace(
        MANAGED, address=FUNCTION, product_id="101e", dev_type=SRIOV_VF, net_name=None,
        parent_addr=PF_0, parent_ifname="p0",
    )  # fmt: skip

    def errors(vendor_id, product_id):
        content = {"vendor_id": vendor_id, "product_id": product_id, "remote_managed": "true"}
        specs = parse_specs([json.dumps({"devname": "p0", **content})])
        return [each.message for each in spec_errors(specs, [MANAGED, function])]

    assert errors("15b3", "101e") == []
    assert errors("15b3", "a2d6") == [
        "[pci] device_spec 0: remote_managed = yes: is supported only for virtual functions;"
        f" {PF_0} is a physical function"
    ]
    assert errors(vendor, product) == [
        f"[pci] device_spec 0: {key} = {value}: matches no remote_managed device: {address}, which"
        f" is named, has {its_own}"
    ]


def test_all_keys_are_parsed():
    names = {"name": " gpu ", "device_type": "type-PCI", "capability_type": "pci"}
    tags = {"resource_class": "gpu", "traits": "fast", "live_migratable": "no"}
    content = {**names, **GPU_IDS, "numa_policy": "required", **tags}
    alias = parse_aliases([json.dumps(content)])["gpu"]
    assert alias.numa_policy == "required"
    criteria = DeviceCriteria(**GPU_IDS, dev_type="type-PCI", live_migratable=False)
    fast = replace(criteria, resource_class="CUSTOM_GPU", traits=frozenset({"CUSTOM_FAST"}))
    assert alias.alternatives == (fast,)


def test_repeated_name_adds_an_alternative():
    values = [json.dumps({"name": "qat", "vendor_id": "8086", "product_id": p}) for p in "12"]
    alias = parse_aliases(values)["qat"]
    assert [criteria.product_id for criteria in alias.alternatives] == ["0001", "0002"]
    assert alias.numa_policy == "legacy"


TWICE = {"name": "a", **GPU_IDS}


@pytest.mark.parametrize(
    ("values", "index", "key", "rule"),
    [
        (["x"], "0", "the document", "malformed|invalid"),
        ([{"vendor_id": "1", "product_id": "1"}], "0", "the document", "has no name"),
        ([{"name": "a", "resource_class": ""}], "0", "the document", "needs vendor_id"),
        ([{"name": " ", "resource_class": "a"}], "0", "name", "not empty"),
        ([{"name": "a", **GPU_IDS, "dev_type": "type-PF"}], "0", "dev_type", "the keys are"),
        ([{"name": "a", **GPU_IDS, "device_type": "PF"}], "0", "device_type", "one of type-PCI"),
        ([{"name": "a", **GPU_IDS, "numa_policy": "any"}], "0", "numa_policy", "one of"),
        ([{"name": "a", **GPU_IDS, "capability_type": "usb"}], "0", "capability_type", "one of"),
        ([TWICE, {**TWICE, "numa_policy": "socket"}], "1", "numa_policy", "the policy legacy"),
        ([TWICE, {**TWICE, "device_type": "type-VF"}], "1", "device_type", "the type None"),
    ],
)
def test_error_of_an_alias_names_index_key_and_rule(values, index, key, rule):
    texts = [each if isinstance(each, str) else json.dumps(each) for each in values]
    with pytest.raises(PciInvalidAlias, match=rule) as caught:
        parse_aliases(texts)
    assert (caught.value.kwargs["index"], caught.value.kwargs["key"]) == (index, key)
    assert caught.value.message.startswith(f"[pci] alias {index}: {key} = ")
