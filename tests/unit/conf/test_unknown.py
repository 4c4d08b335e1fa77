"""Options that a file sets and that nothing reads."""

import pytest
from oslo_config import cfg

from rtagent.conf import load
from rtagent.conf.unknown import unknown
from tests.support.configurations import parsed


def reported(directory, text):
    prefix = f"{directory}/rtagent.conf: "
    return [sentence.removeprefix(prefix) for sentence in unknown(parsed(directory, text))]


def test_misspelt_options_and_groups_are_reported_in_order(tmp_path):
    text = """
[DEFAULT]
reserved_host_memory = 512
debug = true
[claim]
claim_expiry_time = 60
[claims]
claim-expiry-time = 60
[oslo_messaging_rabbit]
rabbit_quorum_queue = true
[placement]
auth_type = password
username = me
"""

    assert reported(tmp_path, text) == [
        "[DEFAULT] reserved_host_memory is not an option of the agent",
        "[claim] claim_expiry_time is not an option of the agent",
    ]


def test_groups_of_types_that_are_not_enabled_are_reported(tmp_path):
    text = """
[devices]
enabled_mdev_types = nvidia-35
[mdev_nvidia-35]
max_instances = 2
instances = 2
[vgpu_nvidia-35]
device_addresses = 0000:08:00.0
[mdev_nvidia-36]
max_instances = 2
[pci]
passthrough_whitelist = {}
[DEFAULT]
pci_alias = {}
"""

    assert reported(tmp_path, text) == [
        "[mdev_nvidia-35] instances is not an option of the agent",
        "[mdev_nvidia-36] max_instances is not an option of the agent",
    ]


def test_groups_of_listed_networks_are_known(tmp_path):
    text = "[neutron]\nphysnets = a\n[neutron_physnet_a]\nnuma_nodes = 0\nnodes = 0\n"

    assert reported(tmp_path, text) == ["[neutron_physnet_a] nodes is not an option of the agent"]


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("[placement]\nauth_type = v3token\ntoken = x\nproject = y\n", ["[placement] project"]),
        (
            "[placement]\nauth_section = nova\n[nova]\nauth_type = v3token\ntoken = x\nfoo = y\n",
            ["[nova] foo"],
        ),
        (
            "[placement]\nauth_type = v3applicationcredential\n"
            "application_credential_id = x\napplication_credential_secret = y\n",
            [],
        ),
        ("[placement]\nauth_type = nonsense\npigeon = x\n", ["[placement] pigeon"]),
        ("[placement]\nauth_type = $nowhere\npigeon = x\n", ["[placement] pigeon"]),
    ],
)
def test_options_of_any_authentication_type_are_known(tmp_path, text, unknown):
    assert reported(tmp_path, text) == [f"{each} is not an option of the agent" for each in unknown]


def test_unreadable_mdev_types_are_not_reported_here(tmp_path):
    text = "[devices]\nenabled_mdev_types = $nowhere\n[mdev_a]\nmax_instances = 2\n"

    assert reported(tmp_path, text) == ["[mdev_a] max_instances is not an option of the agent"]


def test_files_of_a_configuration_directory_are_read(tmp_path):
    (tmp_path / "10.conf").write_text("[claims]\nexpiry = 1\n")
    conf = load.parse(cfg.ConfigOpts(), ["--config-dir", str(tmp_path)], "rtagentd")

    assert [sentence.partition(": ")[2] for sentence in unknown(conf)] == [
        "[claims] expiry is not an option of the agent"
    ]
