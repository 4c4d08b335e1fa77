"""The host CPUs, cells and pages that are assigned to a guest.

Names and units are those of Nova's InstanceNUMATopology.
"""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.base import Value
from rtagent.model.units import KIB_IN_MIB


class CpuTopology(Value, frozen=True, kw_only=True):
    """The CPU topology that the guest sees."""

    sockets: int
    cores: int
    threads: int

    @property
    def vcpus(self) -> int:
        """The number of CPUs."""
        return self.sockets * self.cores * self.threads


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
