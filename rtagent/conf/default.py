"""[DEFAULT]: the identity of the agent, its intervals, and the resources reserved for the host."""

from __future__ import annotations

import math
import socket
from collections.abc import Sequence

from oslo_config import cfg
from oslo_utils import netutils

from rtagent.conf.types import HugePages, ReservedPages
from rtagent.model.base import Value

GROUP = "DEFAULT"

#: The largest allocation ratio; also the largest one in a caller's limits.
MAX_RATIO = 1_000_000
#: Seconds between two periodic audits if ``update_resources_interval`` is 0.
AUDIT_INTERVAL = 60.0

OPTS = [
    cfg.HostDomainOpt(
        "host",
        default=socket.gethostname(),
        sample_default="<the machine's host name>",
        help="""
The name of this service: of its RPC server, its heartbeat and its claims.

It must be unique in the cloud. It may be the name of the machine, but it need not be: the
hypervisor is identified by libvirt's host name and by the uuid in ``state_path``/compute_id.
""",
    ),
    cfg.HostAddressOpt(
        "my_ip",
        default=netutils.get_my_ipv4(),
        sample_default="<the address of the default route's interface>",
        help="The address of this host on the management network. It is part of the node's record.",
    ),
    cfg.StrOpt(
        "state_path",
        default="/var/lib/rtagent",
        help="""
The state directory: the node's identity (compute_id), the embedded database and the socket of the
read API. An absolute path.

A directory serves one agent; a second agent is refused. The directory is created if it does not
exist. A directory that belongs to another user, or to which every user can write, is refused.
""",
    ),
    cfg.StrOpt(
        "instances_path",
        default="$state_path/instances",
        help="""
The directory of the guests' disks; an absolute path. The size of the file system that contains it
is the inventory of resource class DISK_GB.
""",
    ),
    cfg.StrOpt(
        "lock_path",
        default="/run/rtagent",
        help="""
The directory of the lock that keeps a second agent off the same hypervisor, even if that agent has
another state directory. An absolute path. It must be the same for all agents on this machine,
and must be emptied at boot. Not used for test:// connections.

It must exist, and belong to root or to the agent's user. systemd-tmpfiles creates the default. A
directory to which every user can write, such as /run/lock, is refused: any user could hold the
lock there.
""",
    ),
    cfg.IntOpt(
        "update_resources_interval",
        default=0,
        mutable=True,
        help="""
The interval between two periodic audits of the hypervisor in seconds. Events of libvirt start
further audits.

* 0: the default interval of 60 seconds
* below 0: no periodic audits, only those that events and callers start
""",
    ),
    cfg.IntOpt(
        "report_interval",
        default=10,
        min=1,
        mutable=True,
        help="""
The interval between two heartbeats of this service in the database in seconds; at least 1. The
agent checks its own RPC server at the same interval.
""",
    ),
    cfg.IntOpt(
        "service_down_time",
        default=60,
        min=2,
        mutable=True,
        help="""
The time without a heartbeat after which a service counts as down, in seconds; at least 2, and more
than ``report_interval``.

An agent on another machine takes a node over after it has watched for this time without a
heartbeat of the node's agent. The time must be more than the ``report_interval`` of all agents of a
database.
""",
    ),
    cfg.StrOpt(
        "default_availability_zone",
        default="nova",
        mutable=True,
        help="""
The availability zone of hosts whose aggregates name none.

Read by the scheduler.
""",
    ),
    cfg.ListOpt(
        "compute_monitors",
        default=[],
        mutable=True,
        help="""
The monitors that measure the host each ``report_interval``. The metrics are in the field
``metrics`` of the node's record and in the reports to the schedulers, for ``MetricsWeigher`` and
``MetricsFilter``. One monitor of each type can be named:

* ``cpu.virt_driver``: the use of the host's CPUs, as libvirt reports it, with Nova's names
  (``cpu.percent``, ``cpu.user.time`` and others)
* ``numa.membw``: the memory bandwidth of the host and of each NUMA cell, in MB/s
  (``numa.membw.current`` and ``numa.membw.max``), where Linux's resctrl counts it

Other packages add monitors as entry points of ``rtagent.compute.monitors``.
""",
    ),
    cfg.IntOpt(
        "reserved_host_memory_mb",
        default=512,
        min=0,
        mutable=True,
        help="The memory that is reserved for the host, in MB.",
    ),
    cfg.IntOpt(
        "reserved_host_disk_mb",
        default=0,
        min=0,
        mutable=True,
        help="The disk space that is reserved for the host, in MB.",
    ),
    cfg.IntOpt(
        "reserved_host_cpus",
        default=0,
        min=0,
        mutable=True,
        help="""
The number of physical CPUs that are reserved for the host. It cannot be combined with ``[compute]
cpu_shared_set`` or ``cpu_dedicated_set``: leave the host's CPUs out of these sets instead.
""",
    ),
    cfg.BoolOpt(
        "allow_resize_to_same_host",
        default=False,
        help="""
Let the conductor resize a server on the host that it is on, if the scheduler selects this host.
""",
    ),
    cfg.MultiOpt(
        "reserved_huge_pages",
        item_type=HugePages(),
        mutable=True,
        help="""
Huge pages that are reserved for the host: ``node:0,size:2048,count:64`` is 64 pages of 2048 KiB in
NUMA cell 0. The size is in KiB, or has a unit (``1GB``). May be repeated, once for each cell and
size.
""",
    ),
    *(
        cfg.FloatOpt(
            f"{name}_allocation_ratio",
            min=0.0,
            max=MAX_RATIO,
            mutable=True,
            help=f"""
How many times {what} can be allocated to guests; at most 1,000,000.

Unset or 0.0: the ratio in the node's record applies, or ``initial_{name}_allocation_ratio`` if the
record has none yet.
""",
        )
        for name, what in (("cpu", "each CPU"), ("ram", "the memory"), ("disk", "the disk"))
    ),
    *(
        cfg.FloatOpt(
            f"initial_{name}_allocation_ratio",
            default=default,
            min=0.000001,
            max=MAX_RATIO,
            mutable=True,
            help=f"""
The ``{name}_allocation_ratio`` of a node whose record has none, that is, of a new node. From
0.000001 to 1,000,000.
""",
        )
        for name, default in (("cpu", 4.0), ("ram", 1.0), ("disk", 1.0))
    ),
]


class Default(Value, frozen=True, kw_only=True):
    """:ivar reserved_host_memory_mb: MB. :ivar reserved_host_disk_mb: MB."""

    host: str
    my_ip: str
    state_path: str
    instances_path: str
    lock_path: str
    update_resources_interval: int
    report_interval: int
    service_down_time: int
    compute_monitors: Sequence[str]
    default_availability_zone: str
    reserved_host_memory_mb: int
    reserved_host_disk_mb: int
    reserved_host_cpus: int
    allow_resize_to_same_host: bool
    reserved_huge_pages: Sequence[ReservedPages] | None
    cpu_allocation_ratio: float | None
    ram_allocation_ratio: float | None
    disk_allocation_ratio: float | None
    initial_cpu_allocation_ratio: float
    initial_ram_allocation_ratio: float
    initial_disk_allocation_ratio: float

    @property
    def audit_interval(self) -> float:
        """Seconds between two periodic audits; infinite if there are none."""
        seconds = self.update_resources_interval
        return math.inf if seconds < 0 else seconds or AUDIT_INTERVAL
