"""The settings: one value with every option; all mistakes are reported at once."""

import math
from decimal import Decimal

import msgspec
import pytest

from rtagent.conf import load
from rtagent.conf.settings import groups
from rtagent.model.node import Ratios
from rtagent.model.policy import Policy
from tests.support.configurations import mistakes, parsed, settings


def test_defaults_are_those_of_nova(tmp_path):
    read = settings(tmp_path, "[DEFAULT]\nstate_path = /var/lib/here\n")

    assert read.default.reserved_host_memory_mb == 512
    assert read.default.instances_path == "/var/lib/here/instances"
    assert read.database.connection == "sqlite:////var/lib/here/rtagent.sqlite"
    assert read.api.address == "/var/lib/here/rtagent.sock"
    assert read.policy(Ratios()) == Policy(
        reserved_memory_mb=512, cpu_allocation_ratio=Decimal("4.0"), claim_expiry_time=300
    )


def test_a_host_name_with_an_underscore_and_an_empty_uri_are_read_as_in_nova(tmp_path):
    read = settings(tmp_path, "[DEFAULT]\nhost = compute_1\n[libvirt]\nconnection_uri =\n")
    assert (read.default.host, read.libvirt.uri) == ("compute_1", "qemu:///system")


def test_groups_of_networks_are_found_in_any_case_as_in_nova(tmp_path):
    text = "[neutron]\nphysnets = Physnet1\n[neutron_physnet_physnet1]\nnuma_nodes = 0\n"
    assert settings(tmp_path, text).physnets == {"Physnet1": (0,)}


def test_monitors_have_the_names_that_nova_allows(tmp_path):
    names = "virt_driver, cpu.virt_driver, nova.compute.monitors.cpu.virt_driver, numa.membw"
    read = settings(tmp_path, f"[DEFAULT]\ncompute_monitors = {names}\n")
    assert read.default.compute_monitors == (*["cpu.virt_driver"] * 3, "numa.membw")


def test_default_of_each_option_has_the_type_of_its_field():
    for group in groups().values():
        msgspec.convert(msgspec.structs.asdict(group()), group)


def test_traits_are_withheld_by_name_and_by_image_format(tmp_path):
    named = "[placement]\nwithheld_traits = COMPUTE_TRUSTED_CERTS,HW_CPU_X86_SVM\n"
    text = f"[compute]\nimage_type_exclude_list = qcow2, iso\n{named}"
    types = {"COMPUTE_IMAGE_TYPE_QCOW2", "COMPUTE_IMAGE_TYPE_ISO"}
    withheld = settings(tmp_path, text).placement_policy.withheld_traits
    assert withheld == {*types, "COMPUTE_TRUSTED_CERTS", "HW_CPU_X86_SVM"}


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("[compute] image_type_exclude_list = no, qcow2", "item 'no': it is not one of the"),
        ("[placement] withheld_traits = CUSTOM_A", "item 'CUSTOM_A': it is not one of the"),
        ("[claims] claim_expiry_time = soon", "invalid literal for int"),
        ("[DEFAULT] cpu_allocation_ratio = nan", "'nan' is not a finite number"),
        ("[rpc] max_call_rate = nan", "'nan' is not a finite number"),
        ("[scheduler] report_jitter = nan", "'nan' is not a finite number"),
        ("[conductor] takeover_time = inf", "'inf' is not a finite number"),
        (
            "[DEFAULT] reserved_host_memory_mb = 2147483648",
            "Should be less than or equal to 2147483647",
        ),
        ("[upgrade_levels] scheduler = auto", "must be a version of rtagent's API such as 1.0"),
        ("[upgrade_levels] scheduler = 4.4", "must be a version of rtagent's API such as 1.0"),
        ("[DEFAULT] report_interval = ", "must have a value; without the option it is 10"),
        ("[DEFAULT] reserved_host_memory_mb = ", "must have a value; without the option it is 512"),
        ("[scheduler] start_grace = ", "must have a value; without the option it is 30.0"),
        ("[filter_scheduler] cpu_weight_multiplier = ", "must have a value; without the option"),
        ("[filter_scheduler] cpu_weight_multiplier = nan", "'nan' is not a finite number"),
        ("[filter_scheduler] pci_weight_multiplier = -1", "Should be greater than or equal to 0"),
        ("[DEFAULT] lock_path = run", "must be an absolute path"),
        ("[scheduler] host_report_interval = 10.5", "must be at most [DEFAULT] report_interval"),
        ("[compute] cpu_dedicated_set = 4-1", "'4-1': the first CPU of a range must not exceed"),
        ("[DEFAULT] reserved_huge_pages = node:0,size:2048", "'node:0,size:2048' must have node,"),
        ("[DEFAULT] reserved_huge_pages = node:0,size:2M,count:1", "size '2M' is neither whole"),
        ("[DEFAULT] reserved_huge_pages = node:0,size:4,count:2147483648", "count '2147483648' is"),
        ("[metrics] weight_setting = a=1,b=nan", "item 'b=nan': it is not NAME=NUMBER"),
        ("[metrics] weight_setting = =1", "item '=1': it is not NAME=NUMBER"),
        # An invalid item before a valid one is not joined with it.
        ("[metrics] weight_setting = a, cpu.frequency=1.0", "item 'a': it is not NAME=NUMBER"),
        ("[metrics] weight_setting = a=1,,b=2", "item '': it is not NAME=NUMBER"),
        ("[metrics] weight_setting = a=1,a=2", "'a=1,a=2' lists a name twice"),
    ],
)
def test_mistake_in_one_option_names_it_with_its_value_and_the_rule(tmp_path, line, rule):
    (sentence,) = mistakes(tmp_path, line.replace("] ", "]\n"))
    assert sentence.startswith(f"{line}: {rule}")


POWER = "[libvirt] cpu_power_management = True"
SIMULATED = f"{POWER}; connection_uri = test:///host.xml; [compute] cpu_dedicated_set = 1"
WINDOW = "[rpc] keys_file = /keys; signature_window = 61"
HALF = "must be at most half of [claims] operation_retention"
TERMS = "[claims] claim_expiry_time = 60; operation_retention = 120"
UNRESOLVED = "(unresolved): no such option no in group"
CPUS, SHARED = "[DEFAULT] reserved_host_cpus = 1", "[compute] cpu_shared_set"
PAGES = "[DEFAULT] reserved_huge_pages = node:0,size:2048,count:1"
TWICE = f"{PAGES}; reserved_huge_pages = node:0,size:2MB,count:2"
FILES = "[libvirt] file_backed_memory = 9"
BECAUSE = "because of [libvirt] file_backed_memory"
RATIO, MEMORY = "[DEFAULT] ram_allocation_ratio", "[DEFAULT] reserved_host_memory_mb"
LXC = "connection_uri = lxc:///"
NO_LXC = f"[libvirt] {LXC}: must be QEMU's, {BECAUSE}"
NETWORKS = "[neutron_physnet_foo] numa_nodes = 0; [neutron] physnets = foo, bar"
NO_CELLS = "[neutron_physnet_bar] numa_nodes = : must list the NUMA cells of bar"
ODD_KEY = '[pci] device_spec = {"vendor_id": "10de"}; device_spec = [{"vendor": "10de"}]'
DEVNAME = '[pci] report_in_placement = yes; device_spec = {"devname": "enp32s0"}'
REPORTED = "cannot be combined with report_in_placement"
NO_DEVNAME = f"[pci] device_spec 0: devname = enp32s0: {REPORTED}"


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("[DEFAULT] report_interval = 60", "[DEFAULT] service_down_time = 60: must be more"),
        ("[claims] claim_expiry_time = 43201", "[claims] operation_retention = 86400: must be"),
        ("[libvirt] cpu_power_management = true", f"{POWER}: needs [compute] cpu_dedicated_set"),
        (SIMULATED, f"{POWER}: cannot be used with a simulated host"),
        (f"{WINDOW}; {TERMS}", f"[rpc] signature_window = 61.0: {HALF}"),
        ("[DEFAULT] lock_path = $no/run", f"[DEFAULT] lock_path = {UNRESOLVED}"),
        ("[DEFAULT] lock_path = $lock_path/run", "[DEFAULT] lock_path = (unresolved): refers to"),
        ("[devices] enabled_mdev_types = $no", f"[devices] enabled_mdev_types = {UNRESOLVED}"),
        (f"{CPUS}; {SHARED} = 0-3", f"{CPUS}: cannot be combined with {SHARED}"),
        (TWICE, f"{PAGES}: reserves pages of 2048 KiB in cell 0 twice"),
        (f"{FILES}; {MEMORY} = 0", f"{RATIO} = None: must be 1.0, {BECAUSE}"),
        (f"{FILES}; {RATIO} = 1.0", f"{MEMORY} = 512: must be 0, {BECAUSE}"),
        (f"{FILES}; {LXC}; {RATIO} = 1.0; {MEMORY} = 0", NO_LXC),
        (NETWORKS, NO_CELLS),
        (ODD_KEY, "[pci] device_spec 1[0]: vendor = 10de: unknown key; the keys are vendor_id,"),
        (DEVNAME, NO_DEVNAME),
    ],
)
def test_mistake_between_options_or_in_a_part_of_one_names_option_and_rule(tmp_path, text, mistake):
    (sentence,) = mistakes(tmp_path, text.replace("; ", "\n").replace("] ", "]\n"))
    assert sentence.startswith(mistake)


def test_the_scheduler_has_options_of_other_groups(tmp_path):
    text = (
        "[DEFAULT]\nservice_down_time = 90\n[scheduler]\nmax_attempts = 1\n"
        '[pci]\nalias = {"name": "gpu", "vendor_id": "10de", "product_id": "13f1"}\n'
        "[filter_scheduler]\npci_in_placement = true\n"
    )
    options = settings(tmp_path, text).scheduler_options
    assert (options.max_attempts, options.service_down_time) == (1, 90)
    assert (options.pci_in_placement, list(options.aliases)) == (True, ["gpu"])


def test_an_option_that_refers_to_itself_makes_those_that_refer_to_it_mistakes(tmp_path):
    first, second, *_ = mistakes(tmp_path, "[DEFAULT]\nstate_path = $instances_path\n")
    assert first == "[DEFAULT] state_path = (unresolved): refers to itself"
    assert second == "[DEFAULT] instances_path = $state_path/instances: refers to itself"


def test_all_mistakes_are_reported_at_once(tmp_path):
    text = """
[DEFAULT]
reserved_host_cpus = -1
report_interval = 90
[claims]
operation_retention = 30
[libvirt]
call_timeout = 0
pmem_namespaces = x
[pci]
device_spec = x
alias = x
"""
    assert {" ".join(line.split()[:2]) for line in mistakes(tmp_path, text)} == {
        *("[DEFAULT] reserved_host_cpus", "[DEFAULT] service_down_time"),
        *("[claims] operation_retention", "[libvirt] call_timeout", "[libvirt] pmem_namespaces"),
        *("[pci] device_spec", "[pci] alias"),
    }


def test_reload_turns_power_management_on_and_off(tmp_path):
    dedicated = "[compute]\ncpu_dedicated_set = 2-3\n"
    conf = parsed(tmp_path, dedicated)
    powered = [load.read(conf).powered_cpus]
    for text in ("[libvirt]\ncpu_power_management = True\n", ""):
        (tmp_path / "rtagent.conf").write_text(dedicated + text)
        conf.mutate_config_files()
        powered.append(load.read(conf).powered_cpus)

    assert powered == [frozenset(), frozenset({2, 3}), frozenset()]


@pytest.mark.parametrize(
    ("interval", "seconds"), [(0, 60.0), (5, 5.0), (-1, math.inf), (-60, math.inf)]
)
def test_audit_interval_below_zero_is_never_as_in_nova(tmp_path, interval, seconds):
    text = f"[DEFAULT]\nupdate_resources_interval = {interval}\n"

    assert settings(tmp_path, text).default.audit_interval == seconds
