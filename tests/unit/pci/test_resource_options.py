"""Options and inventories of mediated devices and of persistent memory."""

import pytest
from msgspec.structs import replace

from rtagent.errors import ConfigError, InvalidPciRequest
from rtagent.model.device import MdevType
from rtagent.pci.mdev import enabled_type, enabled_types, mdev_inventories
from rtagent.pci.pmem import pmem_inventories, pmem_request
from tests.support.pci_hosts import GPU_0, GPU_1, PF_0, PF_1, flavor, gpu, nic, vf

TYPES = tuple(
    MdevType(id=name, device_api="vfio-pci", available_instances=free)
    for name, free in (("nvidia-11", 4), ("nvidia-12", 2))
)
GPUS = [gpu(GPU_1, mdev_types=TYPES), gpu(GPU_0, mdev_types=TYPES), gpu("0000:09:00.0")]


def types(*names, **options):
    """Enabled types. :param options: of each of them."""
    return [enabled_type(name, **options) for name in names]


def inventories(listed, existing=(), used=()):
    enabled, _ = enabled_types(listed)
    found = mdev_inventories(enabled, GPUS, existing, used)
    return [(each.provider, each.resource_class, each.identifiers) for each in found]


def ids(address, type_, number):
    return tuple(f"{address}/{type_}/{n}" for n in range(number))


def test_types_with_addresses_are_enabled_on_their_devices():
    small = enabled_type("nvidia-11", [GPU_0], max_instances=3)
    assert inventories([small, enabled_type("nvidia-12", [GPU_1], "CUSTOM_BIG")]) == [
        (GPU_0, "VGPU", ids(GPU_0, "nvidia-11", 3)),
        (GPU_1, "CUSTOM_BIG", ids(GPU_1, "nvidia-12", 2)),
    ]


def test_used_and_existing_identifiers_count_within_the_capacity_of_the_device():
    """The device supports some mdevs fewer, because others have created them."""
    used, existing = f"{GPU_0}/nvidia-11/8", f"{GPU_0}/nvidia-11/7"
    one, two = (types("nvidia-11", max_instances=number) for number in (1, 2))
    identifiers = inventories(types("nvidia-11"), [existing], [used])[0][2]
    assert identifiers == (*ids(GPU_0, "nvidia-11", 3), existing, used)
    assert inventories(two, [existing], [used])[0][2] == (existing, used)
    assert inventories(one, [existing], [used])[0][2] == (used,)


def test_max_instances_limits_all_functions_of_a_card():
    """Each function of a card supports one, and the card supports fewer than it has functions."""
    one = replace(TYPES[0], available_instances=1)
    cards = [replace(each, mdev_types=(one,)) for pf in (PF_0, PF_1) for each in nic(pf)]
    limited = types("nvidia-11", max_instances=2)

    def functions(*used):
        found = mdev_inventories(limited, cards, (), [f"{vf(*each)}/nvidia-11/0" for each in used])
        return [each.provider for each in found if each.identifiers]

    assert functions() == [PF_0, vf(0), PF_1, vf(0, PF_1)]
    assert functions((3,)) == [PF_0, vf(3), PF_1, vf(0, PF_1)]
    assert functions((1,), (2,), (3,)) == [vf(1), vf(2), PF_1, vf(0, PF_1)]


def test_first_type_without_addresses_is_enabled_on_the_devices_of_no_other_type():
    listed = [*types("nvidia-11", "nvidia-13"), enabled_type("nvidia-12", [GPU_1])]
    assert inventories(listed) == [
        (GPU_0, "VGPU", ids(GPU_0, "nvidia-11", 4)),
        (GPU_1, "VGPU", ids(GPU_1, "nvidia-12", 2)),
    ]
    _, problems = enabled_types(listed)
    assert [problem.item for problem in problems] == ["[mdev_nvidia-13]"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mdev_class": "GPU"}, r"\[mdev_a\] mdev_class = GPU: must be VGPU"),
        ({"mdev_class": "CUSTOM_big"}, "must be VGPU, or CUSTOM_ and capitals"),
        ({"max_instances": 0}, "max_instances = 0: must be at least 1"),
        ({"device_addresses": ["08:00"]}, "device_addresses = 08:00: must be"),
        (
            {"device_addresses": [GPU_0]},
            r"\[mdev_b\] device_addresses = 0000:08:00.0: a is already enabled on that device",
        ),
    ],
)
def test_error_names_section_option_and_rule(options, message):
    with pytest.raises(ConfigError, match=message):
        enabled_types(types("a", "b", **options))


# --- persistent memory ---


def test_namespaces_are_grouped_by_label():
    inventories = pmem_inventories(["6GB:ns0|ns1", " small : ns2 ", "6GB:ns3"])
    first, second = ((each.resource_class, each.identifiers) for each in inventories)
    assert first == ("CUSTOM_PMEM_NAMESPACE_6GB", ("ns0", "ns1", "ns3"))
    assert second == ("CUSTOM_PMEM_NAMESPACE_SMALL", ("ns2",))
    assert pmem_inventories([]) == ()


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        (["6GB"], "must be LABEL:namespace"),
        (["6GB:"], "must be LABEL:namespace"),
        ([":ns0"], "must be LABEL:namespace"),
        (["6 GB:ns0"], r"must be LABEL:namespace\[|namespace\], with letters, digits and _ in the"),
        (["6GB:ns0|"], "must be LABEL:namespace"),
        (["6GB:ns0|ns0"], "namespace ns0 is listed twice"),
        (["6GB:ns0", "7GB:ns1|ns0"], "namespace ns0 is listed twice"),
    ],
)
def test_invalid_option_is_an_error(values, rule):
    with pytest.raises(ConfigError, match=rule):
        pmem_inventories(values)


def test_flavor_requests_namespaces_by_label():
    requested = pmem_request(flavor(**{"hw:pmem": "6GB, 6GB,small,"}))
    assert requested == {"CUSTOM_PMEM_NAMESPACE_6GB": 2, "CUSTOM_PMEM_NAMESPACE_SMALL": 1}
    assert pmem_request(flavor()) == {}
    with pytest.raises(InvalidPciRequest, match="hw:pmem = 6 GB: must be"):
        pmem_request(flavor(**{"hw:pmem": "6 GB"}))
