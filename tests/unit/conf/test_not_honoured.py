"""Options of Nova that the agent does not have, and that mean something for claims."""

import pytest

from rtagent.conf.libraries import listed
from rtagent.conf.unknown import NAMESPACES, OPTIONS, not_honoured
from tests.support.configurations import parsed

NOVA = """
[DEFAULT]
compute_driver = libvirt.LibvirtDriver
vcpu-pin-set = 1-3
reserved_host_memory_mb = 512
[libvirt]
virt_type = kvm
images_type = rbd
cpu_mode = custom
swtpm_enabled = false
supported_tpm_secret_security = user, host
[workarounds]
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
        "DEFAULT.vcpu-pin-set",
        "libvirt.images_type",
        "libvirt.cpu_mode",
        "libvirt.swtpm_enabled",
        "libvirt.supported_tpm_secret_security",
        "workarounds.reserve_disk_resource_for_image_cache",
        "filter_scheduler.available_filters",
    ]


@pytest.mark.parametrize("entry", OPTIONS, ids=lambda entry: entry.option)
def test_a_value_that_means_what_the_agent_does_is_accepted(tmp_path, entry):
    for value in entry.harmless:
        assert found(tmp_path, f"[{entry.group}]\n{entry.option} = {value.title()}\n") == []


def test_none_of_them_is_an_option_of_the_agent():
    known = {(str(group or "DEFAULT"), o.dest) for group, opts in listed(NAMESPACES) for o in opts}
    assert not known & {(entry.group, entry.option) for entry in OPTIONS}
