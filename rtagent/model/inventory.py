"""Inventories: the capacity that may be claimed, by Placement's formula."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal

from rtagent.model.base import Value
from rtagent.model.policy import Policy
from rtagent.model.topology import Topology
from rtagent.model.usage import Usage


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
