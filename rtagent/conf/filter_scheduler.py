"""[filter_scheduler]: the filters and weighers that select hosts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oslo_config import cfg

from rtagent.conf import weight_multipliers
from rtagent.conf.types import Ratios
from rtagent.model.base import Value
from rtagent.scheduler.guest_names import ARCHITECTURE_NAMES
from rtagent.scheduler.options import DEFAULT_FILTERS, FilterOptions, MetricsOptions

GROUP = "filter_scheduler"

OPTS = [
    cfg.IntOpt(
        "host_subset_size",
        default=1,
        min=1,
        mutable=True,
        help="""
The host is selected at random among this number of best hosts. More than 1 makes it less likely
that several schedulers select the same host at the same time. At least 1.
""",
    ),
    cfg.IntOpt(
        "max_io_ops_per_host",
        default=8,
        min=0,
        mutable=True,
        help="""
IoOpsFilter refuses a host with this number, or more, of instances that are being built, resized,
migrated, rescued, unshelved or snapshotted. The same key in the metadata of aggregates overrides it
for AggregateIoOpsFilter.
""",
    ),
    cfg.IntOpt(
        "max_instances_per_host",
        default=50,
        min=1,
        mutable=True,
        help="""
NumInstancesFilter refuses a host with this number of instances or more. The same key in the
metadata of aggregates overrides it for AggregateNumInstancesFilter.
""",
    ),
    cfg.ListOpt(
        "enabled_filters",
        default=list(DEFAULT_FILTERS),
        mutable=True,
        help="""
The names of the filters that judge hosts: those of rtagent, and those that other packages add
(entry points ``rtagent.scheduler.filters``). Cheap filters run first; among equally cheap ones the
order of this list counts.
""",
    ),
    cfg.ListOpt(
        "weight_classes",
        default=["all"],
        mutable=True,
        help="""
The names of the weighers that order the hosts: those of rtagent, and those that other packages add
(entry points ``rtagent.scheduler.weighers``). ``all``, or Nova's name
``nova.scheduler.weights.all_weighers``, stands for all of rtagent's. A weigher may be written with
its path in Nova, for example ``nova.scheduler.weights.ram.RAMWeigher``.
""",
    ),
    *weight_multipliers.OPTS,
    cfg.Opt(
        "image_props_weight_setting",
        type=Ratios(),
        default={},
        mutable=True,
        help="""
The image properties that ImagePropertiesWeigher compares, each with its ratio: ``NAME=RATIO``,
separated by commas. With ``os_distro=1, hw_machine_type=-1`` a host's weight is the number of its
instances with the requested ``os_distro`` minus the number with the requested ``hw_machine_type``.
Empty: all properties count with a ratio of 1.
""",
    ),
    cfg.BoolOpt(
        "shuffle_best_same_weighed_hosts",
        default=False,
        mutable=True,
        help="""
Order the hosts that share the largest weight at random, so that several schedulers less often
select the same one. False: by name.
""",
    ),
    cfg.StrOpt(
        "image_properties_default_architecture",
        choices=ARCHITECTURE_NAMES,
        mutable=True,
        help="""
The architecture that ImagePropertiesFilter assumes for an image without ``hw_architecture``. Unset:
such an image fits every architecture.
""",
    ),
    cfg.ListOpt(
        "isolated_images",
        default=[],
        mutable=True,
        help="""
The uuids of images whose guests IsolatedHostsFilter restricts to ``isolated_hosts``.
""",
    ),
    cfg.ListOpt(
        "isolated_hosts",
        default=[],
        mutable=True,
        help="""
The names of the hosts that IsolatedHostsFilter reserves for the images of ``isolated_images``.
""",
    ),
    cfg.BoolOpt(
        "restrict_isolated_hosts_to_isolated_images",
        default=True,
        mutable=True,
        help="""
Whether IsolatedHostsFilter refuses ``isolated_hosts`` for other images.
""",
    ),
    cfg.StrOpt(
        "aggregate_image_properties_isolation_namespace",
        mutable=True,
        help="""
AggregateImagePropertiesIsolation reads only those metadata keys of aggregates that begin with this
text and ``aggregate_image_properties_isolation_separator``. Unset: all keys that name an image
property.
""",
    ),
    cfg.StrOpt(
        "aggregate_image_properties_isolation_separator",
        default=".",
        mutable=True,
        help="""
What separates the namespace from the rest of a metadata key, see
``aggregate_image_properties_isolation_namespace``.
""",
    ),
    cfg.BoolOpt(
        "pci_in_placement",
        default=False,
        mutable=True,
        help="""
Ask Placement for hosts with the requested PCI devices, and allocate the devices there. Every agent
must publish its devices (``[pci] report_in_placement``) first. False: only PciPassthroughFilter
judges devices.
""",
    ),
]


class FilterScheduler(Value, frozen=True, kw_only=True):
    """:ivar image_props_weight_setting: the ratio of each image property, by name."""

    host_subset_size: int
    max_io_ops_per_host: int
    max_instances_per_host: int
    enabled_filters: Sequence[str]
    weight_classes: Sequence[str]
    ram_weight_multiplier: float
    cpu_weight_multiplier: float
    disk_weight_multiplier: float
    hypervisor_version_weight_multiplier: float
    num_instances_weight_multiplier: float
    io_ops_weight_multiplier: float
    image_props_weight_multiplier: float
    pci_weight_multiplier: float
    soft_affinity_weight_multiplier: float
    soft_anti_affinity_weight_multiplier: float
    build_failure_weight_multiplier: float
    cross_cell_move_weight_multiplier: float
    image_props_weight_setting: Mapping[str, float]
    shuffle_best_same_weighed_hosts: bool
    image_properties_default_architecture: str | None
    isolated_images: Sequence[str]
    isolated_hosts: Sequence[str]
    restrict_isolated_hosts_to_isolated_images: bool
    aggregate_image_properties_isolation_namespace: str | None
    aggregate_image_properties_isolation_separator: str
    pci_in_placement: bool

    @property
    def multipliers(self) -> dict[str, float]:
        """The multipliers of the weighers, by the names of their options."""
        return {
            "ram_weight_multiplier": self.ram_weight_multiplier,
            "cpu_weight_multiplier": self.cpu_weight_multiplier,
            "disk_weight_multiplier": self.disk_weight_multiplier,
            "hypervisor_version_weight_multiplier": self.hypervisor_version_weight_multiplier,
            "num_instances_weight_multiplier": self.num_instances_weight_multiplier,
            "io_ops_weight_multiplier": self.io_ops_weight_multiplier,
            "image_props_weight_multiplier": self.image_props_weight_multiplier,
            "pci_weight_multiplier": self.pci_weight_multiplier,
            "soft_affinity_weight_multiplier": self.soft_affinity_weight_multiplier,
            "soft_anti_affinity_weight_multiplier": self.soft_anti_affinity_weight_multiplier,
            "build_failure_weight_multiplier": self.build_failure_weight_multiplier,
            "cross_cell_move_weight_multiplier": self.cross_cell_move_weight_multiplier,
        }

    def options(self, metrics: MetricsOptions, default_zone: str) -> FilterOptions:
        """Return the options as the scheduler's value."""
        return FilterOptions(
            host_subset_size=self.host_subset_size,
            max_io_ops_per_host=self.max_io_ops_per_host,
            max_instances_per_host=self.max_instances_per_host,
            enabled_filters=tuple(self.enabled_filters),
            weight_classes=tuple(self.weight_classes),
            image_props_weight_setting=self.image_props_weight_setting,
            shuffle_best_same_weighed_hosts=self.shuffle_best_same_weighed_hosts,
            image_properties_default_architecture=self.image_properties_default_architecture,
            isolated_images=tuple(self.isolated_images),
            isolated_hosts=tuple(self.isolated_hosts),
            restrict_isolated_hosts_to_isolated_images=self.restrict_isolated_hosts_to_isolated_images,
            aggregate_image_properties_isolation_namespace=self.aggregate_image_properties_isolation_namespace,
            aggregate_image_properties_isolation_separator=self.aggregate_image_properties_isolation_separator,
            pci_in_placement=self.pci_in_placement,
            multipliers=self.multipliers,
            metrics=metrics,
            default_availability_zone=default_zone,
        )
