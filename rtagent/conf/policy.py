"""The operator's policy, made of the options and of what the node's record has kept."""

from __future__ import annotations

from decimal import Decimal

from rtagent.conf.numa import numa_policy
from rtagent.conf.settings import Settings
from rtagent.model.node import Ratios
from rtagent.model.policy import Policy


def policy(settings: Settings, recorded: Ratios) -> Policy:
    """Each ratio: the option, else the record's, else the initial one (Nova's order)."""
    default = settings.default

    def ratio(name: str, kept: Decimal | None) -> Decimal:
        chosen = _exact(getattr(default, f"{name}_allocation_ratio"))
        return chosen or kept or _exact(getattr(default, f"initial_{name}_allocation_ratio"))

    return Policy(
        reserved_cpus=default.reserved_host_cpus,
        reserved_memory_mb=default.reserved_host_memory_mb,
        reserved_disk_mb=default.reserved_host_disk_mb,
        claim_expiry_time=settings.claims.claim_expiry_time,
        same_host_resize_reuse=settings.claims.same_host_resize_reuse,
        cpu_allocation_ratio=ratio("cpu", recorded.cpu),
        ram_allocation_ratio=ratio("ram", recorded.ram),
        disk_allocation_ratio=ratio("disk", recorded.disk),
        numa=numa_policy(settings.default, settings.compute, settings.libvirt),
        pci=settings.device_options.policy(),
    )


def _exact(ratio: float | None) -> Decimal:
    """The number that the operator wrote, not its binary neighbour; zero when there is none."""
    return Decimal(str(ratio or 0))
