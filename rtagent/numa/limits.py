"""How far one host cell may be overcommitted."""

from __future__ import annotations

from decimal import Decimal

from rtagent.model.base import Value
from rtagent.model.policy import Policy
from rtagent.model.request import NumaLimits


class CellLimits(Value, frozen=True, kw_only=True):
    """Ratios, exact, so that no rounding decides a grant. They apply to shared vCPUs, and to memory
    that is neither of explicit pages nor of a guest with dedicated CPUs alone."""

    cpu_allocation_ratio: Decimal = Decimal(1)
    ram_allocation_ratio: Decimal = Decimal(1)


def cell_limits(asked: NumaLimits | None, policy: Policy) -> CellLimits:
    """What the request limits, and what the host advertises where it says nothing."""
    cpu = asked.cpu_allocation_ratio if asked else None
    ram = asked.ram_allocation_ratio if asked else None
    return CellLimits(
        cpu_allocation_ratio=policy.cpu_allocation_ratio if cpu is None else Decimal(str(cpu)),
        ram_allocation_ratio=policy.ram_allocation_ratio if ram is None else Decimal(str(ram)),
    )
