"""Usage: amounts in use. A different type from capacity, so that one never passes for the other."""

from __future__ import annotations

from rtagent.model.base import Value


class Usage(Value, frozen=True, kw_only=True):
    """:ivar vcpus: shared vCPUs. :ivar memory_mb: MB. :ivar disk_mb: MB."""

    vcpus: int = 0
    memory_mb: int = 0
    disk_mb: int = 0

    def plus(self, other: Usage) -> Usage:
        return Usage(
            vcpus=self.vcpus + other.vcpus,
            memory_mb=self.memory_mb + other.memory_mb,
            disk_mb=self.disk_mb + other.disk_mb,
        )

    def minus(self, other: Usage) -> Usage:
        return Usage(
            vcpus=self.vcpus - other.vcpus,
            memory_mb=self.memory_mb - other.memory_mb,
            disk_mb=self.disk_mb - other.disk_mb,
        )

    def larger(self, other: Usage) -> Usage:
        """The larger of the two, resource by resource."""
        return Usage(
            vcpus=max(self.vcpus, other.vcpus),
            memory_mb=max(self.memory_mb, other.memory_mb),
            disk_mb=max(self.disk_mb, other.disk_mb),
        )


NOTHING = Usage()
