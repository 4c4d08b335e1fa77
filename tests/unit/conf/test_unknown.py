"""Options that a file sets and that nothing reads."""

import pytest
from oslo_config import cfg

from rtagent.conf import load
from rtagent.conf.unknown import unknown
from tests.support.configurations import parsed


def reported(directory, text):
    prefix = f"{directory}/rtagent.conf: "
    return [sentence.removeprefix(prefix) for sentence in unknown(parsed(directory, text))]


MISSPELT = """
[DEFAULT]
reserved_host_memory = 512
debug = true
[claim]
claim_expiry_time = 60
[claims]
claim-expiry-time = 60
[Compute]
cpu_shared_set = 0
CPU_Dedicated_Set = 1
[oslo_messaging_rabbit]
rabbit_quorum_queue = true
[placement]
auth_type = password
username = me
"""
#: Groups of types: enabled, under its old name, and not enabled; and groups of networks.
TYPES = """
[devices]
enabled_mdev_types = nvidia-35
[mdev_nvidia-35]
max_instances = 2
instances = 2
[mdev_NVIDIA-35]
mdev_class = VGPU
[vgpu_nvidia-35]
device_addresses = 0000:08:00.0
[mdev_nvidia-36]
max_instances = 2
[pci]
passthrough_whitelist = {}
[DEFAULT]
pci_alias = {}
[neutron]
physnets = a
[neutron_physnet_a]
numa_nodes = 0
nodes = 0
[neutron_physnet_b]
numa_nodes = 0
"""
EXPIRY = "[claims] claim-expiry-time: claim_expiry_time is"
SET = "[compute] CPU_Dedicated_Set: cpu_dedicated_set is"
MDEV = "max_instances is not read: [devices] enabled_mdev_types does not list"
PHYSNET = "[neutron_physnet_b] numa_nodes is not read: [neutron] physnets does not list b"
NOWHERE = "[devices]\nenabled_mdev_types = $nowhere\n[mdev_a]\nmax_instances = 2\n"
IN_NOVA = "[nova]\nauth_type = v3token\ntoken = x\nfoo = y\n"


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        (MISSPELT, ["[DEFAULT] reserved_host_memory", "[claim] claim_expiry_time", EXPIRY, SET]),
        (
            TYPES,
            [
                "[mdev_nvidia-35] instances",
                f"[mdev_nvidia-36] {MDEV} nvidia-36",
                "[neutron_physnet_a] nodes",
                PHYSNET,
            ],
        ),
        (NOWHERE, [f"[mdev_a] {MDEV} a"]),
        ("[placement]\nauth_type = v3token\ntoken = x\nproject = y\n", ["[placement] project"]),
        (f"[placement]\nauth_section = nova\n{IN_NOVA}", ["[nova] foo"]),
        ("[placement]\nauth_type = nonsense\npigeon = x\n", ["[placement] pigeon"]),
        ("[placement]\nauth_type = $nowhere\npigeon = x\n", ["[placement] pigeon"]),
    ],
)
def test_options_and_groups_that_nothing_reads_are_reported_in_order(tmp_path, text, unknown):
    sentences = [
        sentence.replace(" is not an option of the agent", "")
        for sentence in reported(tmp_path, text)
    ]
    assert sentences == unknown


def test_files_of_a_configuration_directory_are_read(tmp_path):
    (tmp_path / "10.conf").write_text("[claims]\nexpiry = 1\n")
    conf = load.parse(cfg.ConfigOpts(), ["--config-dir", str(tmp_path)], "rtagentd")

    assert [sentence.partition(": ")[2] for sentence in unknown(conf)] == [
        "[claims] expiry is not an option of the agent"
    ]
