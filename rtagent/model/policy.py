"""The operator's policy: the resources for guests, the reserved resources, and the overcommit."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

from msgspec import UNSET, UnsetType

from rtagent.model.base import Value
from rtagent.model.pci_policy import PciPolicy
from rtagent.model.placement_policy import PlacementPolicy


class NetworkPolicy(Value, frozen=True, kw_only=True):
    """The NUMA affinity of networks.

    :ivar physnets: the cells of each physical network that has an affinity, by its name.
    :ivar tunnels: the cells of tunnelled networks; empty: they have no affinity.
    """

    physnets: Mapping[str, frozenset[int]] = {}
    tunnels: frozenset[int] = frozenset()


class NumaPolicy(Value, frozen=True, kw_only=True):
    """The policy for CPUs, cells and pages.

    :ivar cpu_shared_set: and ``cpu_dedicated_set``: host CPUs, or None where the option is unset.
    :ivar reserved_huge_pages: pages that are reserved for the host, by cell, by size (KiB).
    :ivar packing: fill the most used cell first (Nova's
        ``packing_host_numa_cells_allocation_strategy``) instead of the least used one.
    :ivar realtime_scheduler_priority: of realtime vCPUs, 1 to 99.
    :ivar networks: the cells of networks.
    :ivar file_backed_memory_mb: the capacity for guests whose memory is in files; 0: guests have
        ordinary memory.
    """

    cpu_shared_set: frozenset[int] | None = None
    cpu_dedicated_set: frozenset[int] | None = None
    reserved_huge_pages: Mapping[int, Mapping[int, int]] = {}
    packing: bool = False
    realtime_scheduler_priority: int = 1
    networks: NetworkPolicy = NetworkPolicy()
    file_backed_memory_mb: int = 0

    def shared(self, online: frozenset[int]) -> frozenset[int]:
        """Return the CPUs for shared vCPUs: the online part of ``cpu_shared_set``. If that is
        unset: all, or none when ``cpu_dedicated_set`` is set.
        """
        if self.cpu_shared_set is not None:
            return self.cpu_shared_set & online
        return online if self.cpu_dedicated_set is None else frozenset()

    def dedicated(self, online: frozenset[int]) -> frozenset[int]:
        """Return the CPUs for dedicated vCPUs: the online part of ``cpu_dedicated_set``, or none
        when it is unset.
        """
        return (self.cpu_dedicated_set or frozenset()) & online


class Policy(Value, frozen=True, kw_only=True):
    """Reserved quantities, allocation ratios, and the policies for NUMA, PCI and Placement.

    :ivar reserved_cpus: CPUs. :ivar reserved_memory_mb: MB. :ivar reserved_disk_mb: MB.
    :ivar cpu_allocation_ratio: an exact number, like the other two ratios, so that rounding never
        decides whether a claim is granted.
    :ivar claim_expiry_time: the term of a lease, in seconds.
    :ivar same_host_resize_reuse: the two claims of a resize on one host count as the larger of the
        two, resource by resource. Otherwise they count as their sum.
    :ivar judge_amounts: see `judges_amounts`; unset if true. The release before this one does not
        have the field, and refuses a report whose digest covers it.
    :ivar share_devices: see `shares_devices`; likewise.
    :ivar max_sev_guests: the most guests with AMD SEV; None: as many as the host supports.
    :ivar numa: CPU sets, pages, packing.
    :ivar pci: which devices are available, and under which aliases.
    :ivar placement: allocations, adopted providers, and what provider files add.
    """

    reserved_cpus: int = 0
    reserved_memory_mb: int = 0
    reserved_disk_mb: int = 0
    cpu_allocation_ratio: Decimal = Decimal(1)
    ram_allocation_ratio: Decimal = Decimal(1)
    disk_allocation_ratio: Decimal = Decimal(1)
    claim_expiry_time: int = 300
    same_host_resize_reuse: bool = False
    judge_amounts: bool | UnsetType = UNSET
    share_devices: bool | UnsetType = UNSET
    max_sev_guests: int | None = None
    numa: NumaPolicy = NumaPolicy()
    pci: PciPolicy = PciPolicy()
    placement: PlacementPolicy = PlacementPolicy()

    @property
    def judges_amounts(self) -> bool:
        """Whether vCPUs, memory and disk of the host as a whole can refuse a claim. Otherwise they
        are counted only, because Placement decides on them.
        """
        return self.judge_amounts is not False

    @property
    def shares_devices(self) -> bool:
        """Whether the claims of a resize on one host share devices and assigned resources."""
        return self.share_devices is not False
