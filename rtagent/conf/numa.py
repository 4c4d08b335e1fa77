"""The operator's part in CPUs, cells and pages, made of the options of three groups."""

from __future__ import annotations

from rtagent.conf.compute import Compute
from rtagent.conf.default import Default
from rtagent.conf.libvirt import Libvirt
from rtagent.model.numa_policy import NumaPolicy


def numa_policy(default: Default, compute: Compute, libvirt: Libvirt) -> NumaPolicy:
    """CPU sets, reserved pages by cell and size, packing, priority."""
    reserved: dict[int, dict[int, int]] = {}
    for pages in default.reserved_huge_pages or ():
        reserved.setdefault(pages.node, {})[pages.size] = pages.count
    return NumaPolicy(
        cpu_shared_set=compute.cpu_shared_set,
        cpu_dedicated_set=compute.cpu_dedicated_set,
        reserved_huge_pages=reserved,
        packing=compute.packing_host_numa_cells_allocation_strategy,
        realtime_scheduler_priority=libvirt.realtime_scheduler_priority,
    )
