"""[scheduler]: what agents report to schedulers, and how schedulers select hosts."""

from rtagent.conf.options import Group, mutable, option
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
