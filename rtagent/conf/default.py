"""[DEFAULT], [database] and [events]: the identity of the agent, its intervals, the resources that
are reserved for the host, and the database.
"""

import math
import socket
from collections.abc import Sequence
from typing import Any

from oslo_config import cfg
from oslo_utils import netutils

from rtagent.conf.options import (
    Group,
    HugePages,
    Items,
    MonitorName,
    ReservedPages,
    mutable,
    option,
)

#: The largest allocation ratio; also the largest one in a caller's limits.
MAX_RATIO = 1_000_000
#: Seconds between two periodic audits if ``update_resources_interval`` is 0.
AUDIT_INTERVAL = 60.0


def _ratio(name: str, what: str) -> Any:
    return mutable(
        min=0.0,
        max=MAX_RATIO,
        help=f"""
How many times {what} can be allocated to guests; at most 1,000,000.

Unset or 0.0: the ratio in the node's record applies, or ``initial_{name}_allocation_ratio`` if the
record has none yet.
""",
    )


def _initial_ratio(name: str, default: float) -> Any:
    return mutable(
        default=default,
        min=0.000001,
        max=MAX_RATIO,
        help=f"""
The ``{name}_allocation_ratio`` of a node whose record has none, that is, of a new node. From
0.000001 to 1,000,000.
""",
    )


class Default(Group, frozen=True, kw_only=True):
    """[DEFAULT].

    :ivar host:
        The name of this service: of its RPC server, its heartbeat and its claims.

        It must be unique in the cloud. It may be the name of the machine, but it need not be: the
        hypervisor is identified by libvirt's host name and by the uuid in
        ``state_path``/compute_id.
    :ivar my_ip:
        The address of this host on the management network. It is part of the node's record.
    :ivar state_path:
        The state directory: the node's identity (compute_id), the embedded database and the socket
        of the read API. An absolute path.

        A directory serves one agent; a second agent is refused. The directory is created if it does
        not exist. A directory that belongs to another user, or to which every user can write, is
        refused.
    :ivar instances_path:
        The directory of the guests' disks; an absolute path. The size of the file system that
        contains it is the inventory of resource class DISK_GB.
    :ivar lock_path:
        The directory of the lock that keeps a second agent off the same hypervisor, even if that
        agent has another state directory. An absolute path. It must be the same for all agents on
        this machine, and must be emptied at boot. Not used for test:// connections.

        It must exist, and belong to root or to the agent's user. systemd-tmpfiles creates the
        default. A directory to which every user can write, such as /run/lock, is refused: any user
        could hold the lock there.
    :ivar update_resources_interval:
        The interval between two periodic audits of the hypervisor in seconds. Events of libvirt
        start further audits.

        * 0: the default interval of 60 seconds
        * below 0: no periodic audits, only those that events and callers start
    :ivar report_interval:
        The interval between two heartbeats of this service in the database in seconds; at least 1.
        The agent checks its own RPC server at the same interval.
    :ivar service_down_time:
        The time without a heartbeat after which a service counts as down, in seconds; at least 2,
        and more than ``report_interval``.

        An agent on another machine takes a node over after it has watched for this time without a
        heartbeat of the node's agent. The time must be more than the ``report_interval`` of all
        agents of a database.
    :ivar default_availability_zone:
        The availability zone of hosts whose aggregates name none.

        Read by the scheduler.
    :ivar compute_monitors:
        The monitors that measure the host each ``report_interval``. The metrics are in the field
        ``metrics`` of the node's record and in the reports to the schedulers, for
        ``MetricsWeigher`` and ``MetricsFilter``. One monitor of each type can be named:

        * ``cpu.virt_driver``: the use of the host's CPUs, as libvirt reports it, with Nova's names
          (``cpu.percent``, ``cpu.user.time`` and others)
        * ``numa.membw``: the memory bandwidth of the host and of each NUMA cell, in MB/s
          (``numa.membw.current`` and ``numa.membw.max``), where Linux's resctrl counts it

        A name without a type is one of the type ``cpu``, and the names may begin with
        ``nova.compute.monitors.``, as in Nova.

        Other packages add monitors as entry points of ``rtagent.compute.monitors``.
    :ivar reserved_host_memory_mb: The memory that is reserved for the host, in MB.
    :ivar reserved_host_disk_mb: The disk space that is reserved for the host, in MB.
    :ivar reserved_host_cpus:
        The number of physical CPUs that are reserved for the host. It cannot be combined with
        ``[compute] cpu_shared_set`` or ``cpu_dedicated_set``: leave the host's CPUs out of these
        sets instead.
    :ivar allow_resize_to_same_host:
        Let the conductor resize a server on the host that it is on, if the scheduler selects this
        host.
    :ivar reserved_huge_pages:
        Huge pages that are reserved for the host: ``node:0,size:2048,count:64`` is 64 pages of 2048
        KiB in NUMA cell 0. The size is in KiB, or has a unit (``1GB``). May be repeated, once for
        each cell and size.
    """

    host: str = option(
        cfg.HostDomainOpt, default=socket.gethostname(), sample_default="<the machine's host name>"
    )
    my_ip: str = option(
        cfg.HostAddressOpt,
        default=netutils.get_my_ipv4(),
        sample_default="<the address of the default route's interface>",
    )
    state_path: str = option(default="/var/lib/rtagent")
    instances_path: str = option(default="$state_path/instances")
    lock_path: str = option(default="/run/rtagent")
    update_resources_interval: int = mutable(default=0)
    report_interval: int = mutable(default=10, min=1)
    service_down_time: int = mutable(default=60, min=2)
    default_availability_zone: str = mutable(default="nova")
    compute_monitors: Sequence[str] = mutable(default=[], type=Items(MonitorName()))
    reserved_host_memory_mb: int = mutable(default=512, min=0)
    reserved_host_disk_mb: int = mutable(default=0, min=0)
    reserved_host_cpus: int = mutable(default=0, min=0)
    allow_resize_to_same_host: bool = option(default=False)
    reserved_huge_pages: Sequence[ReservedPages] | None = mutable(
        cfg.MultiOpt, item_type=HugePages()
    )
    cpu_allocation_ratio: float | None = _ratio("cpu", "each CPU")
    ram_allocation_ratio: float | None = _ratio("ram", "the memory")
    disk_allocation_ratio: float | None = _ratio("disk", "the disk")
    initial_cpu_allocation_ratio: float = _initial_ratio("cpu", 4.0)
    initial_ram_allocation_ratio: float = _initial_ratio("ram", 1.0)
    initial_disk_allocation_ratio: float = _initial_ratio("disk", 1.0)

    @property
    def audit_interval(self) -> float:
        """Seconds between two periodic audits; infinite if there are none."""
        seconds = self.update_resources_interval
        return math.inf if seconds < 0 else seconds or AUDIT_INTERVAL


class Database(Group, frozen=True, kw_only=True):
    """[database].

    :ivar connection:
        The SQLAlchemy URL of the database.

        The default is an embedded database in a file of the state directory; its schema is created
        at the first start. For ``postgresql+psycopg://USER:PASSWORD@HOST/NAME`` and
        ``mysql+pymysql://...``, create or upgrade the schema with ``rtagent db sync``.
    :ivar operation_timeout:
        The time limit of one database operation in seconds, from 1 to 300. It sets the time-outs
        for connections, statements and locks. When the database does not answer a claim in time,
        the caller gets a retriable error.
    :ivar require_durability:
        Refuse a database that may lose committed claims when its server or its host fails.

        * True: the agent does not start with such a database. If a setting changes while it runs,
          it refuses every change until the setting is corrected. The error names setting, value and
          remedy.
        * False: the agent works. Its health shows the part ``durability`` as *warn* as long as it
          is so.

        PostgreSQL needs ``fsync``, ``full_page_writes`` and logged tables; the agent itself sets
        ``synchronous_commit`` for its connections. MariaDB and MySQL need InnoDB tables,
        ``innodb_flush_log_at_trx_commit = 1``, ``innodb_doublewrite`` and, with a binary log,
        ``sync_binlog = 1``. SQLite needs a file system on which it can use its write-ahead log.
    """

    connection: str = option(default="sqlite:///$state_path/rtagent.sqlite", secret=True)
    operation_timeout: int = option(default=5, min=1, max=300)
    require_durability: bool = option(default=True)


class Events(Group, frozen=True, kw_only=True):
    """[events].

    :ivar kept:
        How many of the last events of the node stay in the database.

        Notifications that the message broker has not accepted yet, and readers of ``/events`` that
        come back later, find events among these. Older ones are removed, also if they were not
        published: then the metric ``rtagent_events_dropped_total`` counts them. An event takes less
        than 1 KiB.

        A change takes effect at the next start.
    """

    kept: int = option(default=10_000, min=1000, max=1_000_000)
