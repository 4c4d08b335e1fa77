"""Settings: the whole configuration as one frozen value, and the policies that result from it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict, fields

from rtagent.conf.claims import CapacityOptions, Claims
from rtagent.conf.compute import (
    IMAGE_TYPE,
    Compute,
    Devices,
    Libvirt,
    MdevOptions,
    Neutron,
    NeutronTunnel,
    Pci,
)
from rtagent.conf.default import Database, Default, Events
from rtagent.conf.options import Group
from rtagent.conf.placement import PlacementOptions
from rtagent.conf.rpc import Api, Rpc, UpgradeLevels
from rtagent.conf.scheduler import (
    ConductorSettings,
    FilterOptions,
    FilterScheduler,
    Metrics,
    Scheduler,
    SchedulerOptions,
)
from rtagent.model.base import Value
from rtagent.model.device import DeviceSpec
from rtagent.model.node import Ratios
from rtagent.model.observation import Problem
from rtagent.model.policy import (
    EnabledMdevType,
    ManageAllocations,
    NetworkPolicy,
    NumaPolicy,
    PciPolicy,
    PlacementPolicy,
    Policy,
    ProviderFiles,
)
from rtagent.model.request import Flavor
from rtagent.pci.mdev import enabled_type, enabled_types
from rtagent.pci.parsing import name_doubt
from rtagent.pci.placement_reporting import check_no_devname
from rtagent.pci.pmem import pmem_inventories
from rtagent.pci.specs import parse_aliases, parse_specs


class Settings(Value, frozen=True, kw_only=True):
    """One field for each option group, which has one field for each option.

    :ivar mdev: the groups of the enabled types of mediated devices, by type.
    :ivar physnets: the NUMA cells of the listed physical networks, by name.
    :ivar provider_files: what the files of ``[compute] provider_config_location`` add.
    :ivar flavors: those of ``[capacity] flavors_file``.
    """

    default: Default
    api: Api
    capacity: CapacityOptions
    claims: Claims
    compute: Compute
    conductor: ConductorSettings
    database: Database
    devices: Devices
    events: Events
    filter_scheduler: FilterScheduler
    libvirt: Libvirt
    metrics: Metrics
    neutron: Neutron
    neutron_tunnel: NeutronTunnel
    pci: Pci
    placement: PlacementOptions
    rpc: Rpc
    scheduler: Scheduler
    upgrade_levels: UpgradeLevels
    mdev: Mapping[str, MdevOptions]
    physnets: Mapping[str, Sequence[int]]
    provider_files: ProviderFiles = ProviderFiles()
    flavors: tuple[Flavor, ...] = ()

    def policy(self, recorded: Ratios) -> Policy:
        """Return the policy that results from these settings for a node, without what the provider
        files add.

        Each allocation ratio is that of the option, else the recorded ratio, else the initial ratio
        (Nova's order).

        :param recorded: the ratios of the node's record.
        """
        default, claims, tdx_guests = self.default, self.claims, self.libvirt.num_intel_tdx_guests

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
            numa=self.numa_policy,
            pci=self.pci_policy,
            placement=self.placement_policy,
            max_sev_guests=self.libvirt.num_memory_encrypted_guests,
            max_tdx_guests=UNSET if tdx_guests is None else tdx_guests,
        )

    @property
    def placement_policy(self) -> PlacementPolicy:
        """The policy for Placement."""
        images = (IMAGE_TYPE + name.upper() for name in self.compute.image_type_exclude_list)
        return PlacementPolicy(
            manage_allocations=ManageAllocations(self.placement.manage_allocations),
            withheld_traits=frozenset({*self.placement.withheld_traits, *images}),
        )

    @property
    def numa_policy(self) -> NumaPolicy:
        """The policy for CPUs, cells and pages: CPU sets, reserved pages, packing, priority,
        networks, memory in files.
        """
        reserved: dict[int, dict[int, int]] = {}
        for pages in self.default.reserved_huge_pages or ():
            reserved.setdefault(pages.node, {})[pages.size] = pages.count
        return NumaPolicy(
            cpu_shared_set=self.compute.cpu_shared_set,
            cpu_dedicated_set=self.compute.cpu_dedicated_set,
            reserved_huge_pages=reserved,
            packing=self.compute.packing_host_numa_cells_allocation_strategy,
            realtime_scheduler_priority=self.libvirt.realtime_scheduler_priority,
            networks=NetworkPolicy(
                physnets={name: frozenset(cells) for name, cells in self.physnets.items()},
                tunnels=frozenset(self.neutron_tunnel.numa_nodes),
            ),
            file_backed_memory_mb=self.libvirt.file_backed_memory,
        )

    @property
    def pci_policy(self) -> PciPolicy:
        """The policy for devices. :raises ConfigError: an option for devices is wrong."""
        order = self.claims.device_order
        return PciPolicy(
            report_in_placement=self.pci.report_in_placement,
            order=UNSET if order == "first" else order,
            **{field: read() for field, read in self.device_readers().items()},
        )

    def device_readers(self) -> Mapping[str, Callable[[], Any]]:
        """Return the function that computes each field of the policy for devices. It raises
        `ConfigError` if its option is wrong.
        """
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

    @property
    def filter_options(self) -> FilterOptions:
        """The options of the scheduler's filters and weighers."""
        return FilterOptions(
            **asdict(self.filter_scheduler),
            metrics=self.metrics,
            default_availability_zone=self.default.default_availability_zone,
        )

    @property
    def scheduler_options(self) -> SchedulerOptions:
        """The options of the scheduler itself."""
        return SchedulerOptions(
            **asdict(self.scheduler),
            service_down_time=self.default.service_down_time,
            pci_in_placement=self.filter_scheduler.pci_in_placement,
            aliases=self.pci_policy.aliases,
        )

    @property
    def powered_cpus(self) -> frozenset[int]:
        """The host CPUs whose power is managed; none if power management is off."""
        managed, dedicated = self.libvirt.cpu_power_management, self.compute.cpu_dedicated_set
        return dedicated or frozenset() if managed else frozenset()

    def doubts(self) -> list[str]:
        """Return a sentence for each setting that is valid but probably not intended."""
        _, problems = self._mdev_types()
        doubts = [*problems, *self._name_doubts(), *self._alias_doubts()]
        return [
            *(f"{doubt.item}: {doubt.message}" for doubt in doubts),
            *self.provider_files.doubts,
        ]

    def _name_doubts(self) -> Iterator[Problem]:
        """Doubt traits and resource classes of devices whose names resemble others."""
        policy = self.pci_policy
        criteria = [each for alias in policy.aliases.values() for each in alias.alternatives]
        tags = [spec.tags for spec in policy.specs]
        for option, holders in (("device_spec", tags), ("alias", criteria)):
            names = {name for each in holders for name in (*each.traits, each.resource_class or "")}
            for doubt in filter(None, map(name_doubt, sorted(names))):
                yield Problem(item=f"[pci] {option}", message=doubt)

    def _alias_doubts(self) -> Iterator[Problem]:
        """Doubt aliases whose devices the scheduler cannot request from Placement."""
        for name, alias in self.pci_policy.aliases.items():
            if self.filter_scheduler.pci_in_placement and len(alias.alternatives) > 1:
                message = (
                    f"{name} has several alternatives, so with [filter_scheduler] pci_in_placement"
                    " the scheduler refuses all requests for it. Give the devices of all"
                    " alternatives one resource_class in device_spec, and name that in one alias"
                )
                yield Problem(item="[pci] alias", message=message)


@cache
def groups() -> Mapping[str, type[Group]]:
    """Return the declared groups by their names in files, in the order of the sample file."""
    return {
        "DEFAULT" if info.type is Default else info.name: info.type
        for info in fields(Settings)
        if isinstance(info.type, type) and issubclass(info.type, Group)
    }


class SettingsHolder:
    """The settings in force. A reload replaces them as a whole.

    A thread reads `current` each time that it needs a setting, so a reload takes effect at the
    thread's next turn.
    """

    def __init__(self, settings: Settings) -> None:
        self.current = settings


def _exact(ratio: float | None) -> Decimal:
    """Return the number as the operator wrote it, not its nearest binary fraction; 0 if it is
    unset.
    """
    return Decimal(str(ratio or 0))
