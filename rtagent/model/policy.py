"""The operator's policies: resources for guests, overcommit, PCI, Placement's inventories."""

from collections.abc import Mapping, Set
from decimal import Decimal
from enum import StrEnum
from typing import Literal

from msgspec import UNSET, UnsetType

from rtagent.model.assignment import ResourceInventory
from rtagent.model.base import Value
from rtagent.model.device import DeviceCriteria, DeviceSpec


class ManageAllocations(StrEnum):
    """Whether the agent writes the allocations of its claims to Placement.

    :cvar NO: others do. :cvar YES: it writes them after the answer to the call.
    :cvar STRICT: it answers a call that creates a claim after the allocation was written.
    """

    NO = "no"
    YES = "yes"
    STRICT = "strict"


class AdditionalInventory(Value, frozen=True, kw_only=True):
    """An inventory that a provider file adds to one of this node's providers.

    :ivar suffix: of the provider, see `provider_names`; "" is the root.
    """

    suffix: str
    resource_class: str
    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    allocation_ratio: Decimal


class PlacementPolicy(Value, frozen=True, kw_only=True):
    """What the operator has decided about Placement.

    :ivar adopted: the uuids of child providers that another publisher had made, by suffix.
    :ivar disk_provider: the uuid of the provider that shares its disk with this host: allocations
        of DISK_GB are on it, and the root has no DISK_GB. None: the disk is the host's own.
    :ivar additional: inventories that provider files add.
    :ivar additional_traits: traits that provider files add, by the suffix of the
        provider.
    :ivar withheld_traits: traits of the hypervisor that are not reported.
    :ivar additional_by: the provider file that describes a provider, by its suffix.
    """

    manage_allocations: ManageAllocations = ManageAllocations.NO
    adopted: Mapping[str, str] = {}
    disk_provider: str | None = None
    additional: tuple[AdditionalInventory, ...] = ()
    additional_traits: Mapping[str, frozenset[str]] = {}
    withheld_traits: frozenset[str] = frozenset()
    additional_by: Mapping[str, str] = {}


class Alias(Value, frozen=True, kw_only=True):
    """``[pci] alias``: a name by which flavors request devices.

    :ivar alternatives: a device must meet at least one of them.
    """

    name: str
    numa_policy: str
    alternatives: tuple[DeviceCriteria, ...]


#: By name.
Aliases = Mapping[str, Alias]


class EnabledMdevType(Value, frozen=True, kw_only=True):
    """A mediated device type that the operator has enabled.

    :ivar addresses: devices on which the type is enabled; None: all that no other type has.
    :ivar max_instances: per card, with all of its functions; None: as many as they support.
    """

    type: str
    addresses: frozenset[str] | None
    resource_class: str
    max_instances: int | None


#: Which of equal devices a claim gets: the lowest addresses, or the highest (as in Nova).
DeviceOrder = Literal["first", "last"]


class PciPolicy(Value, frozen=True, kw_only=True):
    """Options of PCI devices, parsed.

    :ivar specs: ``[pci] device_spec``; the first that matches a device applies.
    :ivar aliases: ``[pci] alias``.
    :ivar mdev_types: ``[devices] enabled_mdev_types`` and the sections ``[mdev_<type>]``.
    :ivar pmem: ``[libvirt] pmem_namespaces``.
    :ivar report_in_placement: ``[pci] report_in_placement``.
    :ivar order: ``[claims] device_order``; unset if it is ``first``, as the release before this
        one does not have the field.
    """

    specs: tuple[DeviceSpec, ...] = ()
    aliases: Aliases = {}
    mdev_types: tuple[EnabledMdevType, ...] = ()
    pmem: tuple[ResourceInventory, ...] = ()
    report_in_placement: bool = False
    order: DeviceOrder | UnsetType = UNSET


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

    def floating(self, cpus: frozenset[int], pinned: Set[int]) -> frozenset[int]:
        """Return those of some online CPUs on which shared vCPUs float. A guest may be pinned to a
        CPU that was added to ``cpu_shared_set`` later: they leave it out. Nova lets the two sets be
        the same, and then shared vCPUs float on pinned CPUs, too.
        """
        return self.shared(cpus) - (pinned - (self.cpu_dedicated_set or frozenset()))


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
    :ivar max_tdx_guests: the same of Intel TDX; unset like `judge_amounts`.
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
    max_tdx_guests: int | UnsetType = UNSET
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


#: In place of a uuid: the root provider of every node that the configuration is for.
COMPUTE_NODE = "$COMPUTE_NODE"


class ProviderEntry(Value, frozen=True, kw_only=True):
    """One item of the list ``providers`` of a provider file.

    :ivar file: the file. :ivar path: the item's place in it.
    :ivar uuid: of the provider, in lower case, or `COMPUTE_NODE`; None: it is named.
    :ivar name: of the provider; None: it has a uuid.
    :ivar inventories: to be added. The provider is not known yet, so their suffix is "".
    :ivar traits: to be added.
    """

    file: str
    path: str
    uuid: str | None = None
    name: str | None = None
    inventories: tuple[AdditionalInventory, ...] = ()
    traits: frozenset[str] = frozenset()

    @property
    def identification(self) -> str:
        """The uuid or the name."""
        return self.uuid or self.name or ""

    @property
    def origin(self) -> str:
        """The file and the place in it."""
        return f"{self.file}: {self.path}"


class ProviderFiles(Value, frozen=True, kw_only=True):
    """All provider files.

    :ivar entries: each provider is identified once in the same way. Entries that add nothing are
        left out.
    :ivar doubts: a sentence for each part that is valid and has no effect.
    """

    entries: tuple[ProviderEntry, ...] = ()
    doubts: tuple[str, ...] = ()
