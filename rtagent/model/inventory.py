"""Capacity as it may be claimed: Placement's formula, in one place."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal

from rtagent.model.base import Value
from rtagent.model.policy import Policy
from rtagent.model.topology import Topology


class Inventory(Value, frozen=True, kw_only=True):
    """:ivar total: what is there. :ivar reserved: what the host keeps. :ivar ratio: overcommit."""

    total: int
    reserved: int
    ratio: Decimal

    @property
    def claimable(self) -> int:
        """floor((total - reserved) * ratio), never below zero."""
        free = Decimal(self.total - self.reserved) * self.ratio
        return max(0, int(free.to_integral_value(ROUND_FLOOR)))


class Inventories(Value, frozen=True, kw_only=True):
    """:ivar vcpus: CPUs that are shared. :ivar pcpus: CPUs for one guest each. :ivar memory_mb: MB.
    :ivar disk_mb: MB."""

    vcpus: Inventory
    pcpus: Inventory
    memory_mb: Inventory
    disk_mb: Inventory


def inventories(topology: Topology, policy: Policy) -> Inventories:
    """What the host offers under the operator's policy."""
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
            total=topology.memory_mb,
            reserved=policy.reserved_memory_mb,
            ratio=policy.ram_allocation_ratio,
        ),
        disk_mb=Inventory(
            total=topology.disk_mb,
            reserved=policy.reserved_disk_mb,
            ratio=policy.disk_allocation_ratio,
        ),
    )
