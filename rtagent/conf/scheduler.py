"""[scheduler]: what agents report to schedulers, and how schedulers select hosts."""

from __future__ import annotations

from typing import Any

from oslo_config import cfg

from rtagent.model.base import Value
from rtagent.scheduler.options import SchedulerOptions

GROUP = "scheduler"

OPTS = [
    cfg.FloatOpt(
        "host_report_interval",
        default=0.5,
        min=0.05,
        mutable=True,
        help="""
The shortest time between two reports of an agent to the schedulers, in seconds; at least 0.05, and
at most ``[DEFAULT] report_interval``. Changes of the host within this time are sent in one report.

Without a change, the agent reports each ``[DEFAULT] report_interval``.
""",
    ),
    cfg.IntOpt(
        "instance_sync_interval",
        default=120,
        min=1,
        mutable=True,
        help="""
The interval at which an agent sends a digest of its instances to the schedulers, in seconds; at
least 1. A scheduler whose list has another digest asks the agent for the whole list.
""",
    ),
    cfg.FloatOpt(
        "report_jitter",
        default=5.0,
        min=0.0,
        max=60.0,
        mutable=True,
        help="""
The longest time that an agent waits before it answers a scheduler that requested the reports of all
agents, in seconds, from 0 to 60. Each agent waits a random part of it, so that the reports do not
arrive all at once.
""",
    ),
    cfg.IntOpt(
        "max_attempts",
        default=3,
        min=1,
        mutable=True,
        help="""
The number of hosts in the answer for one instance, alternates included; at least 1. The first one
is the selected host.
""",
    ),
    cfg.IntOpt(
        "max_placement_results",
        default=1000,
        min=1,
        mutable=True,
        help="""
The number of allocation candidates that the scheduler requests from Placement in one query; at
least 1. A small number makes the answers of a large Placement faster, but filters and weighers then
see fewer hosts, if the query is for all hosts.
""",
    ),
    cfg.BoolOpt(
        "limit_tenants_to_placement_aggregate",
        default=False,
        mutable=True,
        help="""
Whether a project for which aggregates are reserved gets only their hosts. An aggregate is reserved
for a project by metadata whose key begins with ``filter_tenant_id`` and whose value is the
project's id. The scheduler names these aggregates in its query, so Placement must have them.
""",
    ),
    cfg.BoolOpt(
        "placement_aggregate_required_for_tenants",
        default=False,
        mutable=True,
        help="""
Whether a project for which no aggregate is reserved gets no host at all. It has an effect only
if ``limit_tenants_to_placement_aggregate`` is true.
""",
    ),
    cfg.BoolOpt(
        "query_placement_for_image_type_support",
        default=False,
        mutable=True,
        help="""
Whether Placement is asked only for hosts that support the image's disk format, by the traits
``COMPUTE_IMAGE_TYPE_...`` of their providers.
""",
    ),
    cfg.BoolOpt(
        "query_placement_for_availability_zone",
        default=True,
        mutable=True,
        help="""
Whether Placement is asked only for the hosts of the requested availability zone, which are those
of the aggregates with this zone.
""",
    ),
    cfg.BoolOpt(
        "enable_isolated_aggregate_filtering",
        default=False,
        mutable=True,
        help="""
Whether Placement leaves out the hosts of aggregates whose metadata has a key
``trait:NAME = required``, unless the request requires all of these traits, by its flavor or its
image.
""",
    ),
    cfg.FloatOpt(
        "assume_timeout",
        default=30.0,
        min=1.0,
        mutable=True,
        help="""
The time after which a selected claim is no longer counted on its host, in seconds from the answer;
at least 1. It ends earlier when the host reports the claim, or the caller gives it up.
""",
    ),
    cfg.FloatOpt(
        "request_timeout",
        default=30.0,
        min=1.0,
        mutable=True,
        help="""
The time within which a request must be decided, in seconds; at least 1. After it the request fails,
and nothing of it remains.
""",
    ),
    cfg.FloatOpt(
        "start_grace",
        default=30.0,
        min=0.0,
        mutable=True,
        help="""
The longest time that a scheduler waits at its start until it knows all hosts, in seconds.
""",
    ),
    cfg.StrOpt(
        "api_address",
        default="$state_path/scheduler.sock",
        help="""
The address on which the scheduler's read API listens: the path of a unix socket, or
``127.0.0.1:PORT`` for a metrics scraper on this host. ``[api] address`` is that of an agent.
""",
    ),
]


class Scheduler(Value, frozen=True, kw_only=True):
    """:ivar host_report_interval: seconds. :ivar instance_sync_interval: seconds.
    :ivar report_jitter: seconds. The others are those of `SchedulerOptions`,
    and api_address, a path or a loopback ``address:port``.
    """

    host_report_interval: float
    instance_sync_interval: int
    report_jitter: float
    max_attempts: int
    max_placement_results: int
    limit_tenants_to_placement_aggregate: bool
    placement_aggregate_required_for_tenants: bool
    query_placement_for_image_type_support: bool
    query_placement_for_availability_zone: bool
    enable_isolated_aggregate_filtering: bool
    assume_timeout: float
    request_timeout: float
    start_grace: float
    api_address: str

    def options(self, **others: Any) -> SchedulerOptions:
        """Return the options of the scheduler itself. :param others: those of other groups."""
        names = set(SchedulerOptions.__struct_fields__) - others.keys()
        return SchedulerOptions(**{name: getattr(self, name) for name in names}, **others)
