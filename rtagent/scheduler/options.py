"""The options of the scheduler as values. `rtagent.conf` reads them."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.base import Value
from rtagent.model.pci_policy import Aliases

#: The filters that are enabled by default (Nova's).
DEFAULT_FILTERS = (
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
)

#: The multipliers of the weighers, by option (Nova's).
DEFAULT_MULTIPLIERS = {
    "ram_weight_multiplier": 1.0,
    "cpu_weight_multiplier": 1.0,
    "disk_weight_multiplier": 1.0,
    "hypervisor_version_weight_multiplier": 1.0,
    "num_instances_weight_multiplier": 0.0,
    "io_ops_weight_multiplier": -1.0,
    "image_props_weight_multiplier": 0.0,
    "pci_weight_multiplier": 1.0,
    "soft_affinity_weight_multiplier": 1.0,
    "soft_anti_affinity_weight_multiplier": 1.0,
    "build_failure_weight_multiplier": 1000000.0,
    "cross_cell_move_weight_multiplier": 1000000.0,
}


class MetricsOptions(Value, frozen=True, kw_only=True):
    """[metrics]. :ivar weight_setting: the ratio of each metric, by name."""

    weight_multiplier: float = 1.0
    weight_setting: Mapping[str, float] = {}
    required: bool = True
    weight_of_unavailable: float = -10000.0


class FilterOptions(Value, frozen=True, kw_only=True):
    """[filter_scheduler], with Nova's names and meanings.

    :ivar weight_classes: names of weighers, or ``all``.
    :ivar multipliers: the options ``*_weight_multiplier``, by name. One that is absent has its
        default.
    :ivar default_availability_zone: of [DEFAULT]: the zone of hosts whose aggregates name none.
    """

    host_subset_size: int = 1
    enabled_filters: tuple[str, ...] = DEFAULT_FILTERS
    weight_classes: tuple[str, ...] = ("all",)
    max_io_ops_per_host: int = 8
    max_instances_per_host: int = 50
    isolated_images: tuple[str, ...] = ()
    isolated_hosts: tuple[str, ...] = ()
    restrict_isolated_hosts_to_isolated_images: bool = True
    aggregate_image_properties_isolation_namespace: str | None = None
    aggregate_image_properties_isolation_separator: str = "."
    image_properties_default_architecture: str | None = None
    image_props_weight_setting: Mapping[str, float] = {}
    shuffle_best_same_weighed_hosts: bool = False
    pci_in_placement: bool = False
    multipliers: Mapping[str, float] = {}
    metrics: MetricsOptions = MetricsOptions()
    default_availability_zone: str = "nova"


class SchedulerOptions(Value, frozen=True, kw_only=True):
    """[scheduler], with Nova's names where Nova has one. Times are in seconds.

    :ivar max_attempts: hosts that are tried for one instance: alternates are one less.
    :ivar assume_timeout: after it an assumed claim is forgotten.
    :ivar service_down_time: a host of which no message came for longer is down ([DEFAULT]).
    :ivar pci_in_placement: of [filter_scheduler]: devices are requested from Placement, too.
    :ivar aliases: of [pci], for devices that are requested from Placement.
    :ivar start_grace: READY waits for a complete view for this long.
    """

    max_attempts: int = 3
    max_placement_results: int = 1000
    limit_tenants_to_placement_aggregate: bool = False
    placement_aggregate_required_for_tenants: bool = False
    query_placement_for_image_type_support: bool = False
    query_placement_for_availability_zone: bool = True
    enable_isolated_aggregate_filtering: bool = False
    assume_timeout: float = 30.0
    request_timeout: float = 30.0
    start_grace: float = 30.0
    service_down_time: float = 60.0
    pci_in_placement: bool = False
    aliases: Aliases = {}
