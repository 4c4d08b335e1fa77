"""The policy of a node, made from the options of several groups.

The core knows options only as `rtagent.model.policy.Policy`, `NumaPolicy` and `PciPolicy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict, replace

from rtagent.conf.claims import Claims
from rtagent.conf.compute import Compute
from rtagent.conf.default import Default
from rtagent.conf.devices import Devices, MdevOptions
from rtagent.conf.libvirt import Libvirt
from rtagent.conf.pci import Pci
from rtagent.errors import ConfigError
from rtagent.model.base import Value
from rtagent.model.device_spec import DeviceSpec
from rtagent.model.node import Ratios
from rtagent.model.observation import Problem
from rtagent.model.policy import EnabledMdevType, NetworkPolicy, NumaPolicy, PciPolicy, Policy
from rtagent.pci.mdev import enabled_type, enabled_types
from rtagent.pci.parsing import name_doubt
from rtagent.pci.placement_reporting import check_no_devname
from rtagent.pci.pmem import pmem_inventories
from rtagent.pci.specs import parse_aliases, parse_specs


def make_policy(
    default: Default, claims: Claims, numa: NumaPolicy, pci: PciPolicy, recorded: Ratios
) -> Policy:
    """Return the policy that results from the options and the node's record.

    Each allocation ratio is that of the option, else the recorded ratio, else the initial ratio
    (Nova's order).

    :param recorded: the ratios of the node's record.
    """

    def ratio(name: str, kept: Decimal | None) -> Decimal:
        chosen = _exact(getattr(default, f"{name}_allocation_ratio"))
        return chosen or kept or _exact(getattr(default, f"initial_{name}_allocation_ratio"))

    return Policy(
        reserved_cpus=default.reserved_host_cpus,
        reserved_memory_mb=default.reserved_host_memory_mb,
        reserved_disk_mb=default.reserved_host_disk_mb,
        claim_expiry_time=claims.claim_expiry_time,
        same_host_resize_reuse=claims.same_host_resize_reuse,
        judge_amounts=UNSET if claims.judge_amounts else False,
        share_devices=UNSET if claims.same_host_device_reuse else False,
        cpu_allocation_ratio=ratio("cpu", recorded.cpu),
        ram_allocation_ratio=ratio("ram", recorded.ram),
        disk_allocation_ratio=ratio("disk", recorded.disk),
        numa=numa,
        pci=replace(pci, order=UNSET if claims.device_order == "first" else claims.device_order),
    )


def numa_policy(
    default: Default, compute: Compute, libvirt: Libvirt, networks: NetworkPolicy
) -> NumaPolicy:
    """Return the policy for CPUs, cells and pages: CPU sets, reserved pages, packing, priority,
    networks, memory in files.
    """
    reserved: dict[int, dict[int, int]] = {}
    for pages in default.reserved_huge_pages or ():
        reserved.setdefault(pages.node, {})[pages.size] = pages.count
    return NumaPolicy(
        cpu_shared_set=compute.cpu_shared_set,
        cpu_dedicated_set=compute.cpu_dedicated_set,
        reserved_huge_pages=reserved,
        packing=compute.packing_host_numa_cells_allocation_strategy,
        realtime_scheduler_priority=libvirt.realtime_scheduler_priority,
        networks=networks,
        file_backed_memory_mb=libvirt.file_backed_memory,
    )


class DeviceOptions(Value, frozen=True, kw_only=True):
    """The options for devices, as the operator wrote them.

    :ivar mdev: the groups of the enabled types of mediated devices, by type.
    """

    pci: Pci
    devices: Devices
    mdev: Mapping[str, MdevOptions]
    libvirt: Libvirt

    def policy(self) -> PciPolicy:
        """Return the policy for devices. :raises ConfigError: the first of the `mistakes`."""
        return PciPolicy(
            report_in_placement=self.pci.report_in_placement,
            **{field: read() for field, read in self._readers().items()},
        )

    def mistakes(self) -> Iterator[ConfigError]:
        """Yield the first mistake of each option."""
        for read in self._readers().values():
            try:
                read()
            except ConfigError as error:
                yield error

    def doubts(self) -> tuple[Problem, ...]:
        """Return the settings that are valid but probably not intended. :raises ConfigError: as
        `policy`.
        """
        _, problems = self._mdev_types()
        return (*problems, *self._name_doubts())

    def _name_doubts(self) -> Iterator[Problem]:
        specs = [each.tags for each in parse_specs(self.pci.device_spec)]
        criteria = [
            each for alias in parse_aliases(self.pci.alias).values() for each in alias.alternatives
        ]
        for option, holders in (("device_spec", specs), ("alias", criteria)):
            names = {name for each in holders for name in (*each.traits, each.resource_class or "")}
            for doubt in filter(None, map(name_doubt, sorted(names))):
                yield Problem(item=f"[pci] {option}", message=doubt)

    def _readers(self) -> dict[str, Callable[[], Any]]:
        """The function that computes each field of the policy."""
        return {
            "specs": self._specs,
            "aliases": lambda: parse_aliases(self.pci.alias),
            "mdev_types": lambda: self._mdev_types()[0],
            "pmem": lambda: pmem_inventories(self.libvirt.pmem_namespaces),
        }

    def _mdev_types(self) -> tuple[tuple[EnabledMdevType, ...], tuple[Problem, ...]]:
        names = self.devices.enabled_mdev_types
        return enabled_types(enabled_type(name, **asdict(self.mdev[name])) for name in names)

    def _specs(self) -> tuple[DeviceSpec, ...]:
        specs = parse_specs(self.pci.device_spec)
        if self.pci.report_in_placement:
            check_no_devname(specs)
        return specs


def _exact(ratio: float | None) -> Decimal:
    """Return the number as the operator wrote it, not its nearest binary fraction; 0 if it is
    unset.
    """
    return Decimal(str(ratio or 0))
