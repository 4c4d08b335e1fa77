"""The policy made from the options: ratios, CPU sets and pages, devices, with their mistakes."""

from decimal import Decimal
from pathlib import Path

import pytest
from msgspec import UNSET
from msgspec.structs import astuple

from rtagent.conf import load
from rtagent.model.device import Tags
from rtagent.model.node import Ratios
from rtagent.model.policy import NetworkPolicy, NumaPolicy, PciPolicy
from tests.support.configurations import parsed, settings
from tests.support.pci_hosts import GPU_0, GPU_1

NOVA = """
[pci]
device_spec = {"vendor_id": "10de", "product_id": "13f1"}
device_spec = [{"devname": "enp32s0", "physical_network": "physnet1", "trusted": "true"},
               {"address": "*:0a:00.*", "physical_network": null}]
alias = {"name": "QuadroM4000-video", "vendor_id": "10de", "product_id": "13f1"}
alias = {"name": "vf", "vendor_id": "8086", "product_id": "154c", "device_type": "type-VF"}
alias = {"name": "vf", "vendor_id": "15b3", "product_id": "1018", "device_type": "type-VF"}
[devices]
enabled_mdev_types = nvidia-35, i915-GVTg_V5_4
[mdev_nvidia-35]
device_addresses = 0000:08:00.0
mdev_class = CUSTOM_BIG
max_instances = 2
[mdev_i915-GVTg_V5_4]
device_addresses = 0000:88:00.0
[libvirt]
pmem_namespaces = 128G:ns0|ns1,MEDIUM:ns2
"""


def pci(directory: Path, text: str) -> PciPolicy:
    return settings(directory, text).policy(Ratios()).pci


@pytest.mark.parametrize(
    ("text", "recorded", "ratio"),
    [
        ("", None, "4.0"),
        ("", "2.5", "2.5"),
        ("initial_cpu_allocation_ratio = 8\n", "2.5", "2.5"),
        ("initial_cpu_allocation_ratio = 8\n", None, "8.0"),
        ("cpu_allocation_ratio = 1.1\n", "2.5", "1.1"),
        ("cpu_allocation_ratio = 0.0\n", "2.5", "2.5"),
    ],
)
def test_ratio_is_the_option_or_the_recorded_or_the_initial_one(tmp_path, text, recorded, ratio):
    kept = Ratios(cpu=None if recorded is None else Decimal(recorded))

    made = settings(tmp_path, f"[DEFAULT]\n{text}").policy(kept)

    assert made.cpu_allocation_ratio == Decimal(ratio)


def test_cpu_sets_pages_and_packing_are_read_as_nova_writes_them(tmp_path):
    text = """
[DEFAULT]
ram_allocation_ratio = 1.0
reserved_host_memory_mb = 0
reserved_huge_pages = node:0,size:2048,count:64
reserved_huge_pages = node:1,size:1GB,count:1
reserved_huge_pages = node:1,size:2MiB,count:8
[compute]
cpu_shared_set = 0-1
cpu_dedicated_set = 4-8,^6, 12
packing_host_numa_cells_allocation_strategy = True
[libvirt]
file_backed_memory = 1048576
realtime_scheduler_priority = 20
"""

    assert settings(tmp_path, text).policy(Ratios()).numa == NumaPolicy(
        cpu_shared_set=frozenset({0, 1}),
        cpu_dedicated_set=frozenset({4, 5, 7, 8, 12}),
        reserved_huge_pages={0: {2048: 64}, 1: {1048576: 1, 2048: 8}},
        packing=True,
        realtime_scheduler_priority=20,
        file_backed_memory_mb=1048576,
    )
    empty = "[compute]\ncpu_shared_set =\ncpu_dedicated_set =\n"
    assert settings(tmp_path, empty).policy(Ratios()).numa == NumaPolicy()


def test_device_options_are_read_as_nova_writes_them(tmp_path):
    made = pci(tmp_path, NOVA)

    assert [(spec.index, spec.vendor_id, spec.devname, spec.tags) for spec in made.specs] == [
        ("0", "10de", None, Tags(physical_network=UNSET)),
        ("1[0]", None, "enp32s0", Tags(physical_network="physnet1", trusted=True)),
        ("1[1]", None, None, Tags(physical_network=None)),
    ]
    numbers = {name: len(alias.alternatives) for name, alias in made.aliases.items()}
    assert numbers == {"QuadroM4000-video": 1, "vf": 2}
    types = [astuple(each) for each in made.mdev_types]
    big, small = ("nvidia-35", {GPU_0}, "CUSTOM_BIG", 2), ("i915-GVTg_V5_4", {GPU_1}, "VGPU", None)
    assert types == [big, small]
    namespaces = {each.resource_class: each.identifiers for each in made.pmem}
    names = {"128G": ("ns0", "ns1"), "MEDIUM": ("ns2",)}
    assert namespaces == {f"CUSTOM_PMEM_NAMESPACE_{name}": ids for name, ids in names.items()}


def test_deprecated_option_names_of_nova_are_read(tmp_path):
    text = """
[DEFAULT]
pci_alias = {"name": "gpu", "vendor_id": "10de", "product_id": "13f1"}
[pci]
passthrough_whitelist = {"vendor_id": "10de"}
[devices]
enabled_vgpu_types = nvidia-35
[vgpu_nvidia-35]
device_addresses = 0000:08:00.0
"""

    made = pci(tmp_path, text)

    assert [spec.vendor_id for spec in made.specs] == ["10de"]
    assert list(made.aliases) == ["gpu"]
    assert [each.addresses for each in made.mdev_types] == [frozenset({GPU_0})]


def test_mdev_types_without_device_addresses_are_doubted(tmp_path):
    text = "[devices]\nenabled_mdev_types = nvidia-35, nvidia-36\n"

    assert settings(tmp_path, text).doubts() == [
        "[mdev_nvidia-36]: it has no device_addresses: of such types, only nvidia-35 is enabled,"
        " on all devices that no other type has"
    ]
    assert settings(tmp_path, NOVA).doubts() == []


def test_alternatives_that_placement_cannot_be_asked_for_are_doubted(tmp_path):
    text = f"[filter_scheduler]\npci_in_placement = true\n{NOVA}"
    (doubt,) = settings(tmp_path, text).doubts()
    assert doubt.startswith("[pci] alias: vf has several alternatives, so with [filter_scheduler] ")


def test_names_that_look_like_others_are_doubted(tmp_path):
    text = (
        "[pci]\n"
        'device_spec = {"vendor_id": "10de", "traits": "hw_gpu_api_vulkan,fast"}\n'
        'alias = {"name": "a", "resource_class": " gpu", "traits": "fast"}\n'
    )

    assert settings(tmp_path, text).doubts() == [
        "[pci] device_spec: CUSTOM_HW_GPU_API_VULKAN is not the standard trait HW_GPU_API_VULKAN,"
        " which must be written in upper case",
        "[pci] alias: CUSTOM__GPU begins with an underscore: a blank before a name is a part of it",
    ]


NETWORKS = """
[neutron]
physnets = foo, bar, foo
[neutron_physnet_foo]
numa_nodes = 0
[neutron_physnet_bar]
numa_nodes = 0, 1
[neutron_tunnel]
numa_nodes = 1
"""


def test_networks_have_the_cells_of_their_groups(tmp_path):
    assert settings(tmp_path, "").numa_policy.networks == NetworkPolicy()
    assert settings(tmp_path, NETWORKS).numa_policy.networks == NetworkPolicy(
        physnets={"foo": frozenset({0}), "bar": frozenset({0, 1})}, tunnels=frozenset({1})
    )


def test_groups_of_types_and_networks_that_are_listed_at_a_reload_are_read(tmp_path):
    conf = parsed(tmp_path, NOVA + NETWORKS)
    load.read(conf)
    (tmp_path / "rtagent.conf").write_text(
        "[devices]\nenabled_mdev_types = nvidia-36\n[mdev_nvidia-36]\nmax_instances = 3\n"
        "[neutron]\nphysnets = other\n[neutron_physnet_other]\nnuma_nodes = 1\n"
    )

    conf.mutate_config_files()

    policy = load.read(conf).policy(Ratios())
    assert [(each.type, each.max_instances) for each in policy.pci.mdev_types] == [("nvidia-36", 3)]
    assert policy.numa.networks == NetworkPolicy(physnets={"other": frozenset({1})})


def test_claims_are_judged_and_share_devices_as_the_options_say(tmp_path: Path):
    policy = settings(tmp_path, "").policy(Ratios())
    assert (policy.judges_amounts, policy.shares_devices) == (True, True)
    assert policy.pci.order is UNSET
    text = "[claims]\njudge_amounts = no\nsame_host_device_reuse = no\ndevice_order = last\n"
    text += "[pci]\nreport_in_placement = yes\n"
    policy = settings(tmp_path, text).policy(Ratios())
    assert (policy.judges_amounts, policy.shares_devices) == (False, False)
    assert (policy.pci.order, policy.pci.report_in_placement) == ("last", True)
