"""[devices] enabled_mdev_types and [mdev_<type>]."""

import pytest

from rtagent.errors import ConfigError
from rtagent.model.device import MdevType
from rtagent.pci.mdev import MdevSettings, enabled_types, mdev_inventories
from tests.pci_hosts import GPU_0, GPU_1, gpu

TYPES = tuple(
    MdevType(id=name, device_api="vfio-pci", available_instances=free)
    for name, free in (("nvidia-11", 4), ("nvidia-12", 2))
)
GPUS = [gpu(GPU_1, mdev_types=TYPES), gpu(GPU_0, mdev_types=TYPES), gpu("0000:09:00.0")]


def made(types, settings=None, existing=(), held=()):
    enabled, _ = enabled_types(types, settings or {})
    return [
        (each.provider, each.resource_class, each.identifiers)
        for each in mdev_inventories(enabled, GPUS, existing, held)
    ]


def ids(address, type_, number):
    return tuple(f"{address}/{type_}/{n}" for n in range(number))


def test_one_type_is_enabled_wherever_it_is():
    assert made(["nvidia-11"]) == [
        (GPU_0, "VGPU", ids(GPU_0, "nvidia-11", 4)),
        (GPU_1, "VGPU", ids(GPU_1, "nvidia-11", 4)),
    ]
    assert made([]) == []
    assert made(["nvidia-99"]) == []


def test_types_on_devices_of_their_own():
    settings = {
        "nvidia-11": MdevSettings(device_addresses=(GPU_0,), max_instances=3),
        "nvidia-12": MdevSettings(device_addresses=(GPU_1,), mdev_class="CUSTOM_BIG"),
    }
    assert made(["nvidia-11", "nvidia-12"], settings) == [
        (GPU_0, "VGPU", ids(GPU_0, "nvidia-11", 3)),
        (GPU_1, "CUSTOM_BIG", ids(GPU_1, "nvidia-12", 2)),
    ]


def test_what_was_created_counts_on():
    there = ids(GPU_0, "nvidia-11", 2)
    assert made(["nvidia-11"], existing=there)[0][2] == ids(GPU_0, "nvidia-11", 6)


def test_what_is_held_and_what_exists_is_among_those_that_there_are_and_counts():
    """Others took some: as many as the device makes, and no more, are promised in all."""
    held, there = f"{GPU_0}/nvidia-11/8", f"{GPU_0}/nvidia-11/7"
    one = {"nvidia-11": MdevSettings(max_instances=1)}
    two = {"nvidia-11": MdevSettings(max_instances=2)}
    assert made(["nvidia-11"], existing=[there], held=[held])[0][2] == (
        *ids(GPU_0, "nvidia-11", 3),
        there,
        held,
    )
    assert made(["nvidia-11"], two, existing=[there], held=[held])[0][2] == (there, held)
    assert made(["nvidia-11"], one, existing=[there], held=[held])[0][2] == (held,)


def test_several_types_of_which_one_has_no_devices():
    settings = {"nvidia-12": MdevSettings(device_addresses=(GPU_1,))}
    enabled, problems = enabled_types(["nvidia-11", "nvidia-12"], settings)
    assert [(each.type, each.addresses) for each in enabled] == [("nvidia-11", None)]
    assert [problem.item for problem in problems] == ["[mdev_nvidia-11]"]


def test_a_type_that_is_named_twice_is_one():
    enabled, problems = enabled_types(["nvidia-11", "nvidia-11"], {})
    assert [each.type for each in enabled] == ["nvidia-11"]
    assert problems == ()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"a": MdevSettings(mdev_class="GPU")}, r"\[mdev_a\] mdev_class = GPU: must be VGPU"),
        ({"a": MdevSettings(mdev_class="CUSTOM_big")}, "must be VGPU, or CUSTOM_ and capitals"),
        ({"a": MdevSettings(max_instances=0)}, "max_instances = 0: must be at least 1"),
        ({"a": MdevSettings(device_addresses=("08:00",))}, "device_addresses = 08:00: must be"),
        (
            {name: MdevSettings(device_addresses=(GPU_0,)) for name in "ab"},
            r"\[mdev_b\] device_addresses = 0000:08:00.0: a is enabled on that device already",
        ),
    ],
)
def test_mistakes(settings, message):
    with pytest.raises(ConfigError, match=message):
        enabled_types(["a", "b"], settings)
