"""[compute]: the part of the hypervisor that Placement sees."""

from __future__ import annotations

from oslo_config import cfg

from rtagent.conf.types import CpuSet
from rtagent.model.base import Value

GROUP = "compute"

OPTS = [
    cfg.IntOpt(
        "resource_provider_association_refresh",
        default=300,
        min=0,
        mutable=True,
        help="""
Seconds after which what Placement has of this host is read again, in case somebody else changed
it. 0: never; it is read once and then only after a conflict.
""",
    ),
    cfg.Opt(
        "cpu_shared_set",
        type=CpuSet(),
        mutable=True,
        help="""
Host CPUs on which shared vCPUs float, and emulators with ``hw:emulator_threads_policy=share``:
numbers and ranges, each taken out again when it begins with ``^``: ``0-3,^1,8``. They are what VCPU
offers.

When unset: all online CPUs, or none if ``cpu_dedicated_set`` is set. Each CPU must be there and
online, and in one of the two sets only.
""",
    ),
    cfg.Opt(
        "cpu_dedicated_set",
        type=CpuSet(),
        mutable=True,
        help="""
Host CPUs of which a guest with ``hw:cpu_policy`` ``dedicated`` or ``mixed`` gets some for itself,
written like ``cpu_shared_set``. They are what PCPU offers; when unset, no CPU is pinned.

A CPU that leaves the set, or the host, while a guest holds it stays with that guest.
""",
    ),
    cfg.BoolOpt(
        "packing_host_numa_cells_allocation_strategy",
        default=False,
        mutable=True,
        help="""
Place a guest on the NUMA cells of the host that are used most, as long as it fits, which keeps
whole cells free. When false: on those that are used least.
""",
    ),
]


class Compute(Value, frozen=True, kw_only=True):
    """:ivar resource_provider_association_refresh: seconds; 0: never.
    :ivar cpu_shared_set: and cpu_dedicated_set: host CPUs, or None where the option is unset.
    """

    resource_provider_association_refresh: int
    cpu_shared_set: frozenset[int] | None
    cpu_dedicated_set: frozenset[int] | None
    packing_host_numa_cells_allocation_strategy: bool
