"""[filter_scheduler] and [metrics]: Nova's names, defaults, meanings and bounds."""

import pytest

from rtagent.conf.filter_scheduler import FilterOptions, Metrics
from tests.support.configurations import mistakes, settings

#: Nova's defaults.
DEFAULTS = FilterOptions(
    host_subset_size=1,
    ram_weight_multiplier=1.0,
    cpu_weight_multiplier=1.0,
    disk_weight_multiplier=1.0,
    hypervisor_version_weight_multiplier=1.0,
    num_instances_weight_multiplier=0.0,
    io_ops_weight_multiplier=-1.0,
    image_props_weight_multiplier=0.0,
    pci_weight_multiplier=1.0,
    soft_affinity_weight_multiplier=1.0,
    soft_anti_affinity_weight_multiplier=1.0,
    build_failure_weight_multiplier=1000000.0,
    cross_cell_move_weight_multiplier=1000000.0,
)

#: A part of a nova.conf.
NOVA_CONF = """
[DEFAULT]
default_availability_zone = here
[filter_scheduler]
host_subset_size = 3
max_io_ops_per_host = 0
max_instances_per_host = 100
enabled_filters = ComputeFilter, NUMATopologyFilter,PciPassthroughFilter
weight_classes = nova.scheduler.weights.ram.RAMWeigher,nova.scheduler.weights.cpu.CPUWeigher
ram_weight_multiplier = -2.5
pci_weight_multiplier = 0
image_props_weight_setting = os_distro=1, hw_machine_type=-1
shuffle_best_same_weighed_hosts = True
image_properties_default_architecture = x86_64
isolated_images = 5d1a8c3e-7f2b-4064-a5d1-9a4e7b2f8035
isolated_hosts = host1,host2
restrict_isolated_hosts_to_isolated_images = false
aggregate_image_properties_isolation_namespace = org
aggregate_image_properties_isolation_separator = _
pci_in_placement = true
[metrics]
weight_multiplier = 2
weight_setting = cpu.percent=-1.0, name2 = 3
required = False
weight_of_unavailable = -5
"""


def test_defaults_are_those_of_nova(tmp_path):
    assert settings(tmp_path, "").filter_options == DEFAULTS


def test_lines_of_a_nova_conf_mean_the_same(tmp_path):
    assert settings(tmp_path, NOVA_CONF).filter_options == FilterOptions(
        host_subset_size=3,
        enabled_filters=("ComputeFilter", "NUMATopologyFilter", "PciPassthroughFilter"),
        weight_classes=(
            "nova.scheduler.weights.ram.RAMWeigher",
            "nova.scheduler.weights.cpu.CPUWeigher",
        ),
        max_io_ops_per_host=0,
        max_instances_per_host=100,
        isolated_images=("5d1a8c3e-7f2b-4064-a5d1-9a4e7b2f8035",),
        isolated_hosts=("host1", "host2"),
        restrict_isolated_hosts_to_isolated_images=False,
        aggregate_image_properties_isolation_namespace="org",
        aggregate_image_properties_isolation_separator="_",
        image_properties_default_architecture="x86_64",
        image_props_weight_setting={"os_distro": 1.0, "hw_machine_type": -1.0},
        shuffle_best_same_weighed_hosts=True,
        pci_in_placement=True,
        ram_weight_multiplier=-2.5,
        pci_weight_multiplier=0.0,
        metrics=Metrics(
            weight_multiplier=2.0,
            weight_setting={"cpu.percent": -1.0, "name2": 3.0},
            required=False,
            weight_of_unavailable=-5.0,
        ),
        default_availability_zone="here",
    )


@pytest.mark.parametrize(
    ("group", "option", "value", "rule"),
    [
        ("filter_scheduler", "cpu_weight_multiplier", "nan", "'nan' is not a finite number"),
        ("filter_scheduler", "pci_weight_multiplier", "-1", "greater than or equal to 0"),
        ("metrics", "weight_setting", "a=1,b=nan", "item 'b=nan': it is not NAME=NUMBER"),
        ("metrics", "weight_setting", "=1", "item '=1': it is not NAME=NUMBER"),
        # An invalid item before a valid one is not joined with it.
        ("metrics", "weight_setting", "a, cpu.frequency=1.0", "item 'a': it is not NAME=NUMBER"),
        ("metrics", "weight_setting", "a=1,,b=2", "item '': it is not NAME=NUMBER"),
        ("compute", "image_type_exclude_list", "no, qcow2", "item 'no'"),
        ("placement", "withheld_traits", "NO, COMPUTE_NODE", "item 'NO'"),
        ("metrics", "weight_setting", "a=1,a=2", "'a=1,a=2' lists a name twice"),
    ],
)
def test_mistake_names_option_value_and_rule(tmp_path, group, option, value, rule):
    (sentence,) = mistakes(tmp_path, f"[{group}]\n{option} = {value}\n")
    assert sentence.startswith(f"[{group}] {option} = {value}: ")
    assert rule in sentence
