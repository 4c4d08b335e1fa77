"""[filter_scheduler] and [metrics]: Nova's names and meanings."""

from rtagent.conf.scheduler import FilterOptions, Metrics
from tests.support.configurations import settings

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
