"""[scheduler], [filter_scheduler], [metrics] and [conductor]: what agents report to schedulers, how
schedulers select hosts, with Nova's names, and how conductors use them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rtagent.conf.options import Group, RatiosType, mutable, option
from rtagent.model.policy import Aliases


class Scheduler(Group, frozen=True, kw_only=True):
    """[scheduler], with Nova's names where Nova has one. Times are in seconds.

    :ivar host_report_interval:
        The shortest time between two reports of an agent to the schedulers, in seconds; at least
        0.05, and at most ``[DEFAULT] report_interval``. Changes of the host within this time are
        sent in one report.

        Without a change, the agent reports each ``[DEFAULT] report_interval``.
    :ivar instance_sync_interval:
        The interval at which an agent sends a digest of its instances to the schedulers, in
        seconds; at least 1. A scheduler whose list has another digest asks the agent for the whole
        list.
    :ivar report_jitter:
        The longest time that an agent waits before it answers a scheduler that requested the
        reports of all agents, in seconds, from 0 to 60. Each agent waits a random part of it, so
        that the reports do not arrive all at once.
    :ivar max_attempts:
        The number of hosts in the answer for one instance, alternates included; at least 1. The
        first one is the selected host.
    :ivar max_placement_results:
        The number of allocation candidates that the scheduler requests from Placement in one query;
        at least 1. A small number makes the answers of a large Placement faster, but filters and
        weighers then see fewer hosts, if the query is for all hosts. Such a query has no limit if
        few hosts may be right: by the hints ``same_host`` and ``different_host``, a server group,
        or several named hosts.
    :ivar limit_tenants_to_placement_aggregate:
        Whether a project for which aggregates are reserved gets only their hosts. An aggregate is
        reserved for a project by metadata whose key begins with ``filter_tenant_id`` and whose
        value is the project's id. The scheduler names these aggregates in its query, so Placement
        must have them.
    :ivar placement_aggregate_required_for_tenants:
        Whether a project for which no aggregate is reserved gets no host at all. It has an effect
        only if ``limit_tenants_to_placement_aggregate`` is true.
    :ivar query_placement_for_image_type_support:
        Whether Placement is asked only for hosts that support the image's disk format, by the
        traits ``COMPUTE_IMAGE_TYPE_...`` of their providers.
    :ivar query_placement_for_availability_zone:
        Whether Placement is asked only for the hosts of the requested availability zone, which are
        those of the aggregates with this zone.
    :ivar enable_isolated_aggregate_filtering:
        Whether Placement leaves out the hosts of aggregates whose metadata has a key ``trait:NAME =
        required``, unless the request requires all of these traits, by its flavor, its image or its
        ``requested_resources``.
    :ivar assume_timeout:
        The time after which a selected claim is no longer counted on its host, in seconds from the
        answer; at least 1. It ends earlier when the host reports the claim, or the caller gives it
        up.
    :ivar request_timeout:
        The time within which a request must be decided, in seconds; at least 1. After it the
        request fails, and nothing of it remains.
    :ivar start_grace:
        The longest time that a scheduler waits at its start until it knows all hosts, in seconds.
    :ivar api_address:
        The address on which the scheduler's read API listens: the path of a unix socket, or
        ``127.0.0.1:PORT`` for a metrics scraper on this host. ``[api] address`` is that of an
        agent.
    """

    host_report_interval: float = mutable(default=0.5, min=0.05)
    instance_sync_interval: int = mutable(default=120, min=1)
    report_jitter: float = mutable(default=5.0, min=0.0, max=60.0)
    max_attempts: int = mutable(default=3, min=1)
    max_placement_results: int = mutable(default=1000, min=1)
    limit_tenants_to_placement_aggregate: bool = mutable(default=False)
    placement_aggregate_required_for_tenants: bool = mutable(default=False)
    query_placement_for_image_type_support: bool = mutable(default=False)
    query_placement_for_availability_zone: bool = mutable(default=True)
    enable_isolated_aggregate_filtering: bool = mutable(default=False)
    assume_timeout: float = mutable(default=30.0, min=1.0)
    request_timeout: float = mutable(default=30.0, min=1.0)
    start_grace: float = mutable(default=30.0, min=0.0)
    api_address: str = option(default="$state_path/scheduler.sock")


class SchedulerOptions(Scheduler, frozen=True, kw_only=True):
    """What the scheduler itself reads: [scheduler], and options of other groups.

    :ivar service_down_time: a host of which no message came for longer is down ([DEFAULT]).
    :ivar pci_in_placement: of [filter_scheduler]: devices are requested from Placement, too.
    :ivar aliases: of [pci], for devices that are requested from Placement.
    """

    service_down_time: float = 60.0
    pci_in_placement: bool = False
    aliases: Aliases = {}


class ConductorSettings(Group, frozen=True, kw_only=True):
    """[conductor]. Times are in seconds.

    :ivar connection:
        The SQLAlchemy URL of the database of servers and operations, as ``[database] connection``.

        The schema of an SQLite database is created at the first use. Conductors that share a
        database share their servers: each one can continue the unfinished operations of the others.
    :ivar host_uri:
        The libvirt URI by which the conductor reaches the hypervisor of a host. ``{host}`` is
        replaced by the name of the host, which is ``[DEFAULT] host`` of its agent.

        For simulated hosts: ``test:///var/lib/hosts/{host}.xml``.
    :ivar migration_uri:
        The libvirt URI by which the source of a live migration reaches its destination. Unset: that
        of ``host_uri``.
    :ivar max_attempts: The number of hosts that are tried for one build or move, from 1 to 100.
    :ivar host_timeout:
        The time for which a call to one agent, scheduler or hypervisor is repeated while it does
        not answer or is not ready, in seconds; at least 1. After it, another host is tried, or the
        operation stops and can be resumed.
    :ivar operation_timeout:
        The time after which an operation repeats no call any more, in seconds; at least 10. Then it
        is undone, or it stops and can be resumed.
    :ivar lease_renew_interval:
        The interval at which the lease of a claim is renewed while disks are made ready or copied,
        in seconds; at least 1. It must be less than half of ``[claims] claim_expiry_time`` of the
        agents.
    :ivar takeover_time:
        The time after which an operation may be taken over if its conductor has not updated its
        record, in seconds; at least 1. It must be longer than libvirt's daemons keep the session of
        a client that does not answer, ``keepalive_interval * (keepalive_count + 1)`` of their
        configuration: 30 seconds by default.
    :ivar shutdown_timeout:
        The time that a guest gets to shut down before it is switched off, in seconds.
    :ivar migration_timeout:
        The time after which a live migration is aborted, in seconds; at least 10.
    """

    connection: str = option(default="sqlite:///$state_path/conductor.sqlite", secret=True)
    host_uri: str = option(default="qemu+ssh://{host}/system", regex=r"^[a-z+]+://.*\{host\}.*$")
    migration_uri: str | None = option(regex=r"^[a-z+]+://.*\{host\}.*$")
    max_attempts: int = option(default=3, min=1, max=100)
    host_timeout: float = option(default=60.0, min=1.0)
    operation_timeout: float = option(default=3600.0, min=10.0)
    lease_renew_interval: float = option(default=60.0, min=1.0)
    takeover_time: float = option(default=45.0, min=1.0)
    shutdown_timeout: float = option(default=60.0, min=0.0)
    migration_timeout: float = option(default=1800.0, min=10.0)


#: The filters that are enabled by default (Nova's).
DEFAULT_FILTERS = (
    "ComputeFilter",
    "ComputeCapabilitiesFilter",
    "ImagePropertiesFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
)
#: The names of architectures (Nova's).
ARCHITECTURE_NAMES = (
    *("alpha", "armv6", "armv7l", "armv7b", "aarch64", "cris", "i686", "ia64", "lm32", "m68k"),
    *("microblaze", "microblazeel", "mips", "mipsel", "mips64", "mips64el", "openrisc"),
    *("parisc", "parisc64", "ppc", "ppcle", "ppc64", "ppc64le", "ppcemb", "s390", "s390x", "sh4"),
    *("sh4eb", "sparc", "sparc64", "unicore32", "x86_64", "xtensa", "xtensaeb"),
)

_OVERRIDE = (
    "The same key in the metadata of a host's aggregates overrides the option for that host; the"
    " smallest value counts if there are several."
)


def _multiplier(default: float, least: float | None = None) -> Any:
    return mutable(min=least, default=default, note=_OVERRIDE)


class FilterScheduler(Group, frozen=True, kw_only=True):
    """[filter_scheduler].

    :ivar host_subset_size:
        The host is selected at random among this number of best hosts. More than 1 makes it less
        likely that several schedulers select the same host at the same time. At least 1.
    :ivar max_io_ops_per_host:
        IoOpsFilter refuses a host with this number, or more, of instances that are being built,
        resized, migrated, rescued, unshelved or snapshotted. The same key in the metadata of
        aggregates overrides it for AggregateIoOpsFilter.
    :ivar max_instances_per_host:
        NumInstancesFilter refuses a host with this number of instances or more. The same key in the
        metadata of aggregates overrides it for AggregateNumInstancesFilter.
    :ivar enabled_filters:
        The names of the filters that judge hosts: those of rtagent, and those that other packages
        add (entry points ``rtagent.scheduler.filters``). Cheap filters run first; among equally
        cheap ones the order of this list counts.
    :ivar weight_classes:
        The names of the weighers that order the hosts: those of rtagent, and those that other
        packages add (entry points ``rtagent.scheduler.weighers``). ``all``, or Nova's name
        ``nova.scheduler.weights.all_weighers``, stands for all of rtagent's. A weigher may be
        written with its path in Nova, for example ``nova.scheduler.weights.ram.RAMWeigher``.
    :ivar ram_weight_multiplier:
        The multiplier of RAMWeigher. Positive: hosts with more free memory are preferred, so guests
        are spread. Negative: guests are stacked on the fullest hosts. 0: memory does not count.
    :ivar cpu_weight_multiplier:
        The multiplier of CPUWeigher. Positive: hosts with more free vCPUs are preferred. Negative:
        guests are stacked. 0: CPUs do not count.
    :ivar disk_weight_multiplier:
        The multiplier of DiskWeigher. Positive: hosts with more free disk are preferred. Negative:
        guests are stacked. 0: disks do not count.
    :ivar hypervisor_version_weight_multiplier:
        The multiplier of HypervisorVersionWeigher. Positive: hosts with a newer hypervisor are
        preferred. Negative: older ones. 0: versions do not count.
    :ivar num_instances_weight_multiplier:
        The multiplier of NumInstancesWeigher. Positive: hosts with more instances are preferred.
        Negative: hosts with fewer instances. 0: the number of instances does not count.
    :ivar io_ops_weight_multiplier:
        The multiplier of IoOpsWeigher, which counts the instances that are being built, resized,
        migrated, rescued, unshelved or snapshotted. Negative: hosts with less of that work are
        preferred. Positive: busier hosts. 0: the work does not count.
    :ivar image_props_weight_multiplier:
        The multiplier of ImagePropertiesWeigher. Positive: hosts whose instances have images with
        the properties of the requested one are preferred. Negative: hosts without such instances.
        0: image properties do not count.
    :ivar pci_weight_multiplier:
        The multiplier of PCIWeigher, which prefers hosts with fewer available PCI devices; at least
        0. 0: devices do not count.
    :ivar soft_affinity_weight_multiplier:
        The multiplier of ServerGroupSoftAffinityWeigher, which prefers hosts that have more members
        of the server group; at least 0. 0: soft affinity does not count.
    :ivar soft_anti_affinity_weight_multiplier:
        The multiplier of ServerGroupSoftAntiAffinityWeigher, which prefers hosts that have fewer
        members of the server group; at least 0. 0: soft anti-affinity does not count.
    :ivar build_failure_weight_multiplier:
        The multiplier of BuildFailureWeigher, which avoids hosts on which builds failed recently.
        It is subtracted. 0: failed builds do not count.
    :ivar cross_cell_move_weight_multiplier:
        The multiplier of CrossCellWeigher. It has no effect, because there is one cell.
    :ivar image_props_weight_setting:
        The image properties that ImagePropertiesWeigher compares, each with its ratio:
        ``NAME=RATIO``, separated by commas. With ``os_distro=1, hw_machine_type=-1`` a host's
        weight is the number of its instances with the requested ``os_distro`` minus the number with
        the requested ``hw_machine_type``. Empty: all properties count with a ratio of 1.
    :ivar shuffle_best_same_weighed_hosts:
        Order the hosts that share the largest weight at random, so that several schedulers less
        often select the same one. False: by name.
    :ivar image_properties_default_architecture:
        The architecture that ImagePropertiesFilter assumes for an image without
        ``hw_architecture``. Unset: such an image fits every architecture.
    :ivar isolated_images:
        The uuids of images whose guests IsolatedHostsFilter restricts to ``isolated_hosts``.
    :ivar isolated_hosts:
        The names of the hosts that IsolatedHostsFilter reserves for the images of
        ``isolated_images``.
    :ivar restrict_isolated_hosts_to_isolated_images:
        Whether IsolatedHostsFilter refuses ``isolated_hosts`` for other images.
    :ivar aggregate_image_properties_isolation_namespace:
        AggregateImagePropertiesIsolation reads only those metadata keys of aggregates that begin
        with this text and ``aggregate_image_properties_isolation_separator``. Unset: all keys that
        name an image property.
    :ivar aggregate_image_properties_isolation_separator:
        What separates the namespace from the rest of a metadata key, see
        ``aggregate_image_properties_isolation_namespace``.
    :ivar pci_in_placement:
        Ask Placement for hosts with the requested PCI devices, and allocate the devices there.
        Every agent must publish its devices (``[pci] report_in_placement``) first. False: only
        PciPassthroughFilter judges devices.
    """

    host_subset_size: int = mutable(default=1, min=1)
    max_io_ops_per_host: int = mutable(default=8, min=0)
    max_instances_per_host: int = mutable(default=50, min=1)
    enabled_filters: Sequence[str] = mutable(default=list(DEFAULT_FILTERS))
    weight_classes: Sequence[str] = mutable(default=["all"])
    ram_weight_multiplier: float = _multiplier(1.0)
    cpu_weight_multiplier: float = _multiplier(1.0)
    disk_weight_multiplier: float = _multiplier(1.0)
    hypervisor_version_weight_multiplier: float = _multiplier(1.0)
    num_instances_weight_multiplier: float = _multiplier(0.0)
    io_ops_weight_multiplier: float = _multiplier(-1.0)
    image_props_weight_multiplier: float = _multiplier(0.0)
    pci_weight_multiplier: float = _multiplier(1.0, least=0.0)
    soft_affinity_weight_multiplier: float = _multiplier(1.0, least=0.0)
    soft_anti_affinity_weight_multiplier: float = _multiplier(1.0, least=0.0)
    build_failure_weight_multiplier: float = _multiplier(1_000_000.0)
    cross_cell_move_weight_multiplier: float = _multiplier(1_000_000.0)
    image_props_weight_setting: Mapping[str, float] = mutable(type=RatiosType(), default={})
    shuffle_best_same_weighed_hosts: bool = mutable(default=False)
    image_properties_default_architecture: str | None = mutable(choices=ARCHITECTURE_NAMES)
    isolated_images: Sequence[str] = mutable(default=[])
    isolated_hosts: Sequence[str] = mutable(default=[])
    restrict_isolated_hosts_to_isolated_images: bool = mutable(default=True)
    aggregate_image_properties_isolation_namespace: str | None = mutable()
    aggregate_image_properties_isolation_separator: str = mutable(default=".")
    pci_in_placement: bool = mutable(default=False)


class Metrics(Group, frozen=True, kw_only=True):
    """[metrics].

    :ivar weight_multiplier:
        The multiplier of MetricsWeigher's normalised weights. Negative: hosts with a smaller sum
        are preferred. 0: metrics do not count. The key ``metrics_weight_multiplier`` in the
        metadata of a host's aggregates overrides it.
    :ivar weight_setting:
        The metrics that count, each with its ratio: ``NAME=RATIO``, separated by commas. With
        ``name1=1.0, name2=-1.3`` a host's weight is the value of ``name1`` minus 1.3 times the
        value of ``name2``. Empty: metrics do not count.
    :ivar required:
        Whether a host must have all metrics of ``weight_setting``. True: a host that lacks one
        comes after all others; enable MetricsFilter to refuse it. False: its weight is
        ``weight_of_unavailable``.
    :ivar weight_of_unavailable:
        The weight, before it is normalised, of a host that lacks a metric whose ratio is not 0, if
        ``required`` is False.
    """

    weight_multiplier: float = mutable(default=1.0)
    weight_setting: Mapping[str, float] = mutable(type=RatiosType(), default={})
    required: bool = mutable(default=True)
    weight_of_unavailable: float = mutable(default=-10000.0)


class FilterOptions(FilterScheduler, frozen=True, kw_only=True):
    """What filters and weighers may read: [filter_scheduler], and options of other groups.

    :ivar default_availability_zone: of [DEFAULT]: the zone of hosts whose aggregates name none.
    """

    metrics: Metrics = Metrics()
    default_availability_zone: str = "nova"
