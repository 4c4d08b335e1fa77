"""Options of Nova that the agent does not have, and that mean something for claims."""

import pytest
from oslo_config import cfg

from rtagent.conf import load
from rtagent.conf.libraries import listed
from rtagent.conf.unknown import NAMESPACES, OPTIONS, not_honoured
from tests.support.configurations import parsed

NOVA = """
[DEFAULT]
compute_driver = libvirt.LibvirtDriver
vcpu_pin_set = 1-3
reserved_host_memory_mb = 512
[libvirt]
virt_type = kvm
images_type = rbd
cpu_mode = custom
swtpm_enabled = false
supported_tpm_secret_security = user, host
[WorkArounds]
reserve_disk_resource_for_image_cache = true
[filter_scheduler]
available_filters = nova.scheduler.filters.all_filters
available_filters = mine.Filter
"""


def found(directory, text):
    errors = not_honoured(parsed(directory, text))
    return [f"{error.kwargs['group']}.{error.kwargs['option']}" for error in errors]


def test_options_that_would_be_ignored_are_mistakes(tmp_path):
    assert found(tmp_path, NOVA) == [
        "DEFAULT.vcpu_pin_set",
        "libvirt.images_type",
        "libvirt.cpu_mode",
        "libvirt.swtpm_enabled",
        "libvirt.supported_tpm_secret_security",
        "workarounds.reserve_disk_resource_for_image_cache",
        "filter_scheduler.available_filters",
    ]


def test_a_file_of_the_agent_may_set_an_option_of_nova_to_a_value_that_means_what_it_does(tmp_path):
    (tmp_path / "nova.conf").write_text("[libvirt]\nimages_type = rbd\nvirt_type = lxc\n")
    own = tmp_path / "agent.conf"
    own.write_text("[libvirt]\nimages_type =\n")
    files = [
        word for name in ("nova.conf", own.name) for word in ("--config-file", tmp_path / name)
    ]

    conf = load.parse(cfg.ConfigOpts(), [str(word) for word in files], "rtagentd")

    assert [error.kwargs["option"] for error in not_honoured(conf)] == ["virt_type"]


def test_each_value_of_a_repeated_option_counts(tmp_path):
    filters = (
        "available_filters = mine.Filter\navailable_filters = nova.scheduler.filters.all_filters"
    )
    assert found(tmp_path, f"[filter_scheduler]\n{filters}\n") == [
        "filter_scheduler.available_filters"
    ]


@pytest.mark.parametrize("entry", OPTIONS, ids=lambda entry: entry.option)
def test_a_value_that_means_what_the_agent_does_is_accepted(tmp_path, entry):
    for value in entry.harmless:
        assert found(tmp_path, f"[{entry.group}]\n{entry.option} = {value.title()}\n") == []


def test_none_of_them_is_an_option_of_the_agent():
    known = {(str(group or "DEFAULT"), o.dest) for group, opts in listed(NAMESPACES) for o in opts}
    assert not known & {(entry.group, entry.option) for entry in OPTIONS}
