"""The operator's part in what guests may have of CPUs, cells and pages."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.base import Value


class NumaPolicy(Value, frozen=True, kw_only=True):
    """:ivar cpu_shared_set: and cpu_dedicated_set: host CPUs, or None where the option is unset.
    :ivar reserved_huge_pages: pages that the host keeps, by cell, by size (KiB).
    :ivar packing: fill the cell that is used most first (Nova's
        ``packing_host_numa_cells_allocation_strategy``), and not the one that is used least.
    :ivar realtime_scheduler_priority: of realtime vCPUs, 1 to 99.
    """

    cpu_shared_set: frozenset[int] | None = None
    cpu_dedicated_set: frozenset[int] | None = None
    reserved_huge_pages: Mapping[int, Mapping[int, int]] = {}
    packing: bool = False
    realtime_scheduler_priority: int = 1

    def shared(self, online: frozenset[int]) -> frozenset[int]:
        """CPUs for shared vCPUs: the set; all when neither set is given, none when only the other
        is."""
        if self.cpu_shared_set is not None:
            return self.cpu_shared_set & online
        return online if self.cpu_dedicated_set is None else frozenset()

    def dedicated(self, online: frozenset[int]) -> frozenset[int]:
        """CPUs for dedicated vCPUs: the set; none without it."""
        return (self.cpu_dedicated_set or frozenset()) & online
