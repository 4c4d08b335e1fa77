"""Usage: the quantities in use. It is a different type from capacity, so the two are never
confused.

Usage is always a sum over claims and domains. Every part of `NumaUsage` is a count, CPUs included,
so subtracting one owner's part from the sum is exact even where two owners use one CPU. A foreign
domain may share a CPU with a claim; two claims never do.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import ROUND_FLOOR, Decimal
from typing import TypeVar

from rtagent.model.assignment import Assignment
from rtagent.model.base import Value
from rtagent.model.policy import Policy
from rtagent.model.topology import Topology

K = TypeVar("K")

#: Quantities by the suffix of a provider's name and by resource class.
Quantities = Mapping[tuple[str, str], int]


class NumaUsage(Value, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The host CPUs, cells and pages in use.

    :ivar pinned: the number of owners that use a host CPU, by CPU.
    :ivar kept: the number of owners that reserve a host CPU as an idle thread sibling (the isolate
        policy), by CPU.
    :ivar vcpus: shared vCPUs, by cell.
    :ivar memory_mb: MB by cell, including the pages of explicit sizes.
    :ivar pages: pages of an explicit size, by cell and size (KiB).
    """

    pinned: Mapping[int, int] = {}
    kept: Mapping[int, int] = {}
    vcpus: Mapping[int, int] = {}
    memory_mb: Mapping[int, int] = {}
    pages: Mapping[tuple[int, int], int] = {}

    def plus(self, other: NumaUsage) -> NumaUsage:
        """Add, count by count."""
        return self.combined(other, operator.add)

    def minus(self, other: NumaUsage) -> NumaUsage:
        """Subtract, count by count."""
        return self.combined(other, operator.sub)

    def combined(self, other: NumaUsage, combine: Callable[[int, int], int]) -> NumaUsage:
        """Combine, count by count, by a function that returns its first argument for 0."""
        if other is NUMA_NOTHING:  # the usage of most guests
            return self
        return NumaUsage(
            pinned=_combined(self.pinned, other.pinned, combine),
            kept=_combined(self.kept, other.kept, combine),
            vcpus=_combined(self.vcpus, other.vcpus, combine),
            memory_mb=_combined(self.memory_mb, other.memory_mb, combine),
            pages=_combined(self.pages, other.pages, combine),
        )


NUMA_NOTHING = NumaUsage()


class Usage(Value, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The quantities in use on a node, or by one owner.

    :ivar vcpus: shared vCPUs. :ivar pcpus: dedicated CPUs. :ivar memory_mb: MB.
    :ivar disk_mb: MB. :ivar numa: the same use by host CPU and by cell.
    :ivar quantities: of the resource classes that provider files offer, by the suffix of
        the provider's name and by class.
    """

    vcpus: int = 0
    pcpus: int = 0
    memory_mb: int = 0
    disk_mb: int = 0
    numa: NumaUsage = NUMA_NOTHING
    quantities: Quantities = {}

    def plus(self, other: Usage) -> Usage:
        """Add, resource by resource. Neither has counts of 0: equal sums are equal values."""
        if other is NOTHING:
            return self
        if self is NOTHING:  # the start of a sum
            return other
        return self._with(other, operator.add)

    def minus(self, other: Usage) -> Usage:
        """Subtract, resource by resource."""
        return self._with(other, operator.sub)

    def larger(self, other: Usage) -> Usage:
        """Return the larger of the two, resource by resource."""
        return self._with(other, max)

    def _with(self, other: Usage, combine: Callable[[int, int], int]) -> Usage:
        quantities = self.quantities
        if other.quantities:  # most hosts offer no other classes
            quantities = _combined(quantities, other.quantities, combine)
        return Usage(
            vcpus=combine(self.vcpus, other.vcpus),
            pcpus=combine(self.pcpus, other.pcpus),
            memory_mb=combine(self.memory_mb, other.memory_mb),
            disk_mb=combine(self.disk_mb, other.disk_mb),
            numa=self.numa.combined(other.numa, combine),
            quantities=quantities,
        )


NOTHING = Usage()


def assignment_usage(assignment: Assignment | None) -> NumaUsage:
    """Return the NUMA usage of one assignment."""
    if assignment is None or not assignment.cells:
        return NUMA_NOTHING
    pinned, kept = Counter[int](), Counter[int]()
    vcpus, memory_mb = Counter[int](), Counter[int]()
    pages = Counter[tuple[int, int]]()
    for cell in assignment.cells:
        pinned.update(cell.cpu_pinning.values())
        pinned.update(cell.cpuset_reserved)
        kept.update(cell.cpuset_kept)
        vcpus[cell.id] += len(cell.cpuset)
        memory_mb[cell.id] += cell.memory
        if cell.pagesize is not None:
            pages[cell.id, cell.pagesize] += cell.pages
    return NumaUsage(
        pinned=_nonzero(pinned),
        kept=_nonzero(kept),
        vcpus=_nonzero(vcpus),
        memory_mb=_nonzero(memory_mb),
        pages=_nonzero(pages),
    )


def _combined(
    ours: Mapping[K, int], theirs: Mapping[K, int], combine: Callable[[int, int], int]
) -> Mapping[K, int]:
    """Combine the counts that `theirs` has with ours. It names a few CPUs, `ours` hundreds."""
    if not theirs:
        return ours
    combined = dict(ours)
    for key, count in theirs.items():
        total = combine(ours.get(key, 0), count)
        if total:
            combined[key] = total
        else:
            combined.pop(key, None)
    return combined


def _nonzero(counts: Mapping[K, int]) -> dict[K, int]:
    """Return the counts without zeros, so that equal sums are equal values."""
    return {key: count for key, count in counts.items() if count}


class Inventory(Value, frozen=True, kw_only=True):
    """Capacity of one resource.

    :ivar total: the quantity that the host has. :ivar reserved: the quantity that is reserved for
        the host.
    :ivar ratio: the allocation ratio (overcommit).
    """

    total: int
    reserved: int
    ratio: Decimal

    @property
    def claimable(self) -> int:
        """The quantity that claims may use: floor((total - reserved) * ratio), at least zero."""
        free = Decimal(self.total - self.reserved) * self.ratio
        return max(0, int(free.to_integral_value(ROUND_FLOOR)))


class Inventories(Value, frozen=True, kw_only=True):
    """The inventories of a host.

    :ivar vcpus: shared CPUs. :ivar pcpus: dedicated CPUs. :ivar memory_mb: MB. :ivar disk_mb: MB.
    """

    vcpus: Inventory
    pcpus: Inventory
    memory_mb: Inventory
    disk_mb: Inventory


def memory_mb(topology: Topology, policy: Policy) -> int:
    """Return the MB for guests and the host: the host's memory, or else that in files."""
    return policy.numa.file_backed_memory_mb or topology.memory_mb


def pcpus_used(usage: Usage, policy: Policy) -> int:
    """Return the number of dedicated CPUs in use. One that several domains share counts once."""
    dedicated = policy.numa.cpu_dedicated_set or frozenset()
    return max(usage.pcpus, len(dedicated & usage.numa.pinned.keys()))


def inventories(topology: Topology, policy: Policy) -> Inventories:
    """Return the inventories of the host under the operator's policy."""
    return Inventories(
        vcpus=Inventory(
            total=len(policy.numa.shared(topology.cpus)),
            reserved=policy.reserved_cpus,
            ratio=policy.cpu_allocation_ratio,
        ),
        pcpus=Inventory(
            total=len(policy.numa.dedicated(topology.cpus)), reserved=0, ratio=Decimal(1)
        ),
        memory_mb=Inventory(
            total=memory_mb(topology, policy),
            reserved=policy.reserved_memory_mb,
            ratio=policy.ram_allocation_ratio,
        ),
        disk_mb=Inventory(
            total=topology.disk_mb,
            reserved=policy.reserved_disk_mb,
            ratio=policy.disk_allocation_ratio,
        ),
    )
