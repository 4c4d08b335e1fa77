"""Usage: amounts in use. A different type from capacity, so that one never passes for the other."""

from __future__ import annotations

from rtagent.model.base import Value
from rtagent.model.numa_usage import NUMA_NOTHING, NumaUsage


class Usage(Value, frozen=True, kw_only=True, repr_omit_defaults=True):
    """:ivar vcpus: shared vCPUs. :ivar pcpus: dedicated CPUs. :ivar memory_mb: MB.
    :ivar disk_mb: MB. :ivar numa: which CPUs, and how much of which cell.
    """

    vcpus: int = 0
    pcpus: int = 0
    memory_mb: int = 0
    disk_mb: int = 0
    numa: NumaUsage = NUMA_NOTHING

    def plus(self, other: Usage) -> Usage:
        return Usage(
            vcpus=self.vcpus + other.vcpus,
            pcpus=self.pcpus + other.pcpus,
            memory_mb=self.memory_mb + other.memory_mb,
            disk_mb=self.disk_mb + other.disk_mb,
            numa=self.numa.plus(other.numa),
        )

    def minus(self, other: Usage) -> Usage:
        return Usage(
            vcpus=self.vcpus - other.vcpus,
            pcpus=self.pcpus - other.pcpus,
            memory_mb=self.memory_mb - other.memory_mb,
            disk_mb=self.disk_mb - other.disk_mb,
            numa=self.numa.minus(other.numa),
        )

    def larger(self, other: Usage) -> Usage:
        """The larger of the two, resource by resource."""
        return Usage(
            vcpus=max(self.vcpus, other.vcpus),
            pcpus=max(self.pcpus, other.pcpus),
            memory_mb=max(self.memory_mb, other.memory_mb),
            disk_mb=max(self.disk_mb, other.disk_mb),
            numa=self.numa.larger(other.numa),
        )


NOTHING = Usage()
