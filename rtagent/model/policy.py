"""The operator's part in what may be granted."""

from __future__ import annotations

from decimal import Decimal

from rtagent.model.base import Value
from rtagent.model.numa_policy import NumaPolicy
from rtagent.model.pci_policy import PciPolicy


class Policy(Value, frozen=True, kw_only=True):
    """Reserves and ratios.

    :ivar reserved_cpus: CPUs. :ivar reserved_memory_mb: MB. :ivar reserved_disk_mb: MB.
    :ivar cpu_allocation_ratio: and the other two: exact, so that no rounding decides a grant.
    :ivar claim_expiry_time: seconds a lease runs.
    :ivar same_host_resize_reuse: the two claims of a resize on one host count as the larger of
        them, resource by resource; else as their sum. :ivar numa: CPU sets, pages, packing.
    :ivar pci: which devices are offered, and under which names.
    """

    reserved_cpus: int = 0
    reserved_memory_mb: int = 0
    reserved_disk_mb: int = 0
    cpu_allocation_ratio: Decimal = Decimal(1)
    ram_allocation_ratio: Decimal = Decimal(1)
    disk_allocation_ratio: Decimal = Decimal(1)
    claim_expiry_time: int = 300
    same_host_resize_reuse: bool = False
    numa: NumaPolicy = NumaPolicy()
    pci: PciPolicy = PciPolicy()
