"""[DEFAULT]: who this agent is, how often it acts, and what the operator keeps back."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from oslo_config import cfg
from oslo_utils import netutils

from rtagent.conf.types import HugePages, ReservedPages
from rtagent.model.base import Value

GROUP = "DEFAULT"

#: What a caller's limits may ask for, too.
MAX_RATIO = 1_000_000

OPTS = [
    cfg.HostDomainOpt(
        "host",
        default=socket.gethostname(),
        sample_default="<the machine's host name>",
        help="""
The name of this service: of its RPC server, its heartbeat and its claims.

It must be unique in the cloud. It may be the name of the machine, but it need not be: the
hypervisor is told apart by libvirt's host name and by the uuid in ``state_path``/compute_id.
""",
    ),
    cfg.HostAddressOpt(
        "my_ip",
        default=netutils.get_my_ipv4(),
        sample_default="<the address of the default route's interface>",
        help="The address of this host on the management network, shown on the node's record.",
    ),
    cfg.StrOpt(
        "state_path",
        default="/var/lib/rtagent",
        help="""
The directory of what must outlive the process: the node's identity (compute_id), the embedded
database and the socket of the read API.

One agent per directory: a second one is refused.
""",
    ),
    cfg.StrOpt(
        "instances_path",
        default="$state_path/instances",
        help="""
Where the disks of the guests are stored. The file system that holds this directory is the
host's disk: its size is what DISK_GB offers.
""",
    ),
    cfg.StrOpt(
        "lock_path",
        default="/run/lock",
        help="""
The directory of the lock that keeps a second agent off the same hypervisor, whatever state
directory that one has. It must be the same for every process of this machine, and be emptied at
boot. Not used with test:// connections, which have no machine of their own.
""",
    ),
    cfg.IntOpt(
        "update_resources_interval",
        default=0,
        mutable=True,
        help="""
Seconds between two periodic audits of the hypervisor. Events of libvirt start one in between.

* 0: the default rate, one a minute
* below 0: no periodic audit, only those that events and callers start
""",
    ),
    cfg.IntOpt(
        "report_interval",
        default=10,
        min=1,
        mutable=True,
        help="Seconds between two heartbeats of this service in the database.",
    ),
    cfg.IntOpt(
        "service_down_time",
        default=60,
        min=2,
        mutable=True,
        help="""
Seconds without a heartbeat after which a service counts as down; more than ``report_interval``.

While the last heartbeat of a node's writer is younger, an agent on another machine refuses to take
the node over.
""",
    ),
    cfg.IntOpt(
        "reserved_host_memory_mb",
        default=512,
        min=0,
        mutable=True,
        help="Memory in MB that the host keeps for itself.",
    ),
    cfg.IntOpt(
        "reserved_host_disk_mb",
        default=0,
        min=0,
        mutable=True,
        help="Disk in MB that the host keeps for itself.",
    ),
    cfg.IntOpt(
        "reserved_host_cpus",
        default=0,
        min=0,
        mutable=True,
        help="""
Physical CPUs that the host keeps for itself. Not together with ``[compute] cpu_shared_set`` or
``cpu_dedicated_set``, which leave out what the host keeps.
""",
    ),
    cfg.MultiOpt(
        "reserved_huge_pages",
        item_type=HugePages(),
        mutable=True,
        help="""
Huge pages that the host keeps for itself: ``node:0,size:2048,count:64`` is 64 pages of 2048 KiB on
NUMA cell 0. The size may have a unit (``1GB``). May be given several times, once for each cell and
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
How many times over {what} may be promised to guests.

When unset (or 0.0), the ratio on the node's record holds, and ``initial_{name}_allocation_ratio``
where there is none yet.
""",
        )
        for name, what in (("cpu", "each CPU"), ("ram", "memory"), ("disk", "disk"))
    ),
    *(
        cfg.FloatOpt(
            f"initial_{name}_allocation_ratio",
            default=default,
            min=0.000001,
            max=MAX_RATIO,
            mutable=True,
            help=f"""
The ``{name}_allocation_ratio`` of a node whose record has none: read when the node is new.
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
    reserved_host_memory_mb: int
    reserved_host_disk_mb: int
    reserved_host_cpus: int
    reserved_huge_pages: Sequence[ReservedPages] | None
    cpu_allocation_ratio: float | None
    ram_allocation_ratio: float | None
    disk_allocation_ratio: float | None
    initial_cpu_allocation_ratio: float
    initial_ram_allocation_ratio: float
    initial_disk_allocation_ratio: float
