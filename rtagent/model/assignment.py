"""The host CPUs, cells, pages and countable resources that are assigned to a guest.

Names and units are those of Nova's InstanceNUMATopology.
"""

from collections.abc import Mapping

from rtagent.model.base import Positive, Value
from rtagent.model.units import KIB_IN_MIB


class CpuTopology(Value, frozen=True, kw_only=True):
    """The CPU topology that the guest sees."""

    sockets: int
    cores: int
    threads: int


class CellAssignment(Value, frozen=True, kw_only=True):
    """One guest cell, and the host cell that it is placed on.

    :ivar id: the host cell's id. :ivar memory: MB.
    :ivar cpuset: its shared vCPUs, which float on the host CPUs ``shared_pcpus``.
    :ivar cpu_pinning: the host CPU of each dedicated vCPU, by vCPU.
    :ivar cpuset_reserved: host CPUs that are reserved for the emulator's threads.
    :ivar cpuset_kept: thread siblings of the pinned CPUs that no guest may use (the isolate
        policy).
    :ivar pagesize: KiB, if pages of an explicit size were assigned; None if plain memory was.
    :ivar hugepages: the pages are larger than the host's smallest, so the domain document must ask
        for them. Plain memory consists of the smallest pages.
    """

    id: int
    memory: int
    cpuset: frozenset[int] = frozenset()
    shared_pcpus: frozenset[int] = frozenset()
    cpu_pinning: Mapping[int, int] = {}
    cpuset_reserved: frozenset[int] = frozenset()
    cpuset_kept: frozenset[int] = frozenset()
    pagesize: int | None = None
    hugepages: bool = False

    @property
    def pcpuset(self) -> frozenset[int]:
        """The dedicated vCPUs."""
        return frozenset(self.cpu_pinning)

    @property
    def vcpus(self) -> frozenset[int]:
        """All vCPUs of the cell."""
        return self.cpuset | self.pcpuset

    def pcpus_of(self, vcpu: int) -> frozenset[int]:
        """Return the host CPUs on which a vCPU of the cell may run."""
        pinned = self.cpu_pinning.get(vcpu)
        return self.shared_pcpus if pinned is None else frozenset({pinned})

    @property
    def taken(self) -> frozenset[int]:
        """Host CPUs that no other guest may be pinned to, including idle thread siblings."""
        return frozenset(self.cpu_pinning.values()) | self.cpuset_reserved | self.cpuset_kept

    @property
    def pages(self) -> int:
        """The number of pages of ``pagesize``; 0 if it is None."""
        return 0 if self.pagesize is None else self.memory * KIB_IN_MIB // self.pagesize


class Assignment(Value, frozen=True, kw_only=True):
    """The placement of a guest, with everything that its domain document states about it.

    :ivar cells: by guest cell. Empty for a guest that asked for no NUMA topology.
    :ivar shared_pcpus: host CPUs on which the vCPUs of a guest without cells float. Empty: any.
    :ivar emulator_pcpus: host CPUs on which the emulator runs. Empty: wherever the vCPUs may run.
    :ivar realtime: vCPUs with the realtime scheduler, at ``realtime_priority``.
    :ivar cpu_topology: None means the hypervisor's default.
    :ivar locked_memory: the guest's memory is never swapped out.
    :ivar file_backed: the guest's memory is in a file.
    """

    cells: tuple[CellAssignment, ...] = ()
    shared_pcpus: frozenset[int] = frozenset()
    emulator_pcpus: frozenset[int] = frozenset()
    realtime: frozenset[int] = frozenset()
    realtime_priority: int = 1
    cpu_topology: CpuTopology | None = None
    locked_memory: bool = False
    file_backed: bool = False

    @property
    def pcpus(self) -> int:
        """PCPU: the number of host CPUs dedicated to the guest, including its emulator's."""
        return sum(len(cell.cpu_pinning) + len(cell.cpuset_reserved) for cell in self.cells)

    @property
    def taken(self) -> frozenset[int]:
        """Host CPUs that only this guest may use, including idle thread siblings."""
        return frozenset[int]().union(*(cell.taken for cell in self.cells))

    @property
    def kept(self) -> frozenset[int]:
        """The idle thread siblings among them."""
        return frozenset[int]().union(*(cell.cpuset_kept for cell in self.cells))

    @property
    def allowed(self) -> frozenset[int]:
        """Every host CPU on which its vCPUs or its emulator may run."""
        shared = (cell.shared_pcpus for cell in self.cells)
        return (self.taken - self.kept).union(self.shared_pcpus, self.emulator_pcpus, *shared)


class PmemNamespace(Value, frozen=True, kw_only=True):
    """A persistent memory namespace of the host, in mode ``devdax``.

    :ivar path: of its character device, for example ``/dev/dax0.0``. It may be another one after
        the host was started again.
    :ivar size_kb: KiB. :ivar align_kb: KiB.
    """

    name: str
    path: str
    size_kb: int
    align_kb: int


class ResourceInventory(Value, frozen=True, kw_only=True):
    """The resources of one class that one provider has.

    :ivar provider: the address of the parent device, or "" for the host itself.
    :ivar identifiers: each unique on the host, in the order in which they are assigned.
    :ivar namespaces: the namespaces among them, as the host has them.
    """

    provider: str
    resource_class: str
    identifiers: tuple[str, ...]
    namespaces: tuple[PmemNamespace, ...] = ()


class AssignedQuantity(Value, frozen=True, kw_only=True):
    """An quantity of a resource class that a provider file offers, as a claim records
    it.

    :ivar provider: the uuid of the resource provider. :ivar suffix: of its name, see
        `provider_names`; "" is the root.
    """

    provider: str
    suffix: str
    resource_class: str
    quantity: Positive

    @property
    def pool(self) -> tuple[str, str]:
        """The suffix of the provider and the resource class, under which it counts."""
        return self.suffix, self.resource_class

    def unit_of(self, claim_uuid: str) -> str:
        """Return the name of the unit that records the quantity of a claim."""
        parts = (claim_uuid, str(self.quantity), self.provider, self.resource_class, self.suffix)
        return "/".join(parts)


def quantity_of_unit(unit: str) -> AssignedQuantity | None:
    """Return the quantity that a unit records; None: it records none."""
    parts = unit.split("/", 4)
    if len(parts) < 5 or not parts[1].isdecimal():
        return None
    _, quantity, provider, resource_class, suffix = parts
    return AssignedQuantity(
        provider=provider, suffix=suffix, resource_class=resource_class, quantity=int(quantity)
    )


class AssignedResource(Value, frozen=True, kw_only=True):
    """One assigned resource, as a claim records it.

    :ivar provider: the uuid of the resource provider that has it; None: its record was damaged, or
        made by an earlier release.
    :ivar parent_addr: the PCI address of the parent device; None: the host itself has it.
    :ivar namespace: for persistent memory, the namespace as it was when it was assigned.
    """

    resource_class: str
    identifier: str
    provider: str | None = None
    parent_addr: str | None = None
    namespace: PmemNamespace | None = None
