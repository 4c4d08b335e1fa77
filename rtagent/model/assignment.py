"""What a guest was given of the host's CPUs, cells and pages: the part of a claim that is concrete.

Names and units are those of Nova's InstanceNUMATopology.
"""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.base import Value
from rtagent.model.pages import KIB_IN_MIB


class CpuTopology(Value, frozen=True, kw_only=True):
    """How the guest sees its CPUs."""

    sockets: int
    cores: int
    threads: int

    @property
    def vcpus(self) -> int:
        """How many CPUs that makes."""
        return self.sockets * self.cores * self.threads


class CellAssignment(Value, frozen=True, kw_only=True):
    """One guest cell, placed.

    :ivar id: of the host's cell. :ivar memory: MB.
    :ivar cpuset: its shared vCPUs, which float on the host CPUs ``shared_pcpus``.
    :ivar cpu_pinning: the host CPU of each dedicated vCPU, by vCPU.
    :ivar cpuset_reserved: host CPUs taken for the emulator's threads.
    :ivar cpuset_kept: thread siblings of the CPUs taken, which nobody may use.
    :ivar pagesize: KiB, when pages of an explicit size were taken; else None: memory was.
    :ivar hugepages: they are larger than the smallest there, so that the guest must be told to use
        them: the smallest are what any memory is made of.
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
        """Its dedicated vCPUs."""
        return frozenset(self.cpu_pinning)

    @property
    def vcpus(self) -> frozenset[int]:
        """All of its vCPUs."""
        return self.cpuset | self.pcpuset

    def pcpus_of(self, vcpu: int) -> frozenset[int]:
        """The host CPUs on which a vCPU of the cell may run."""
        pinned = self.cpu_pinning.get(vcpu)
        return self.shared_pcpus if pinned is None else frozenset({pinned})

    @property
    def taken(self) -> frozenset[int]:
        """Host CPUs that nobody else may be pinned to: run on, or kept idle."""
        return frozenset(self.cpu_pinning.values()) | self.cpuset_reserved | self.cpuset_kept

    @property
    def pages(self) -> int:
        """How many pages of ``pagesize`` it took; 0 without one."""
        return 0 if self.pagesize is None else self.memory * KIB_IN_MIB // self.pagesize


class Assignment(Value, frozen=True, kw_only=True):
    """A guest, placed: all that its domain document needs to be told.

    :ivar cells: by guest cell; none for a guest that asked for no NUMA topology.
    :ivar shared_pcpus: host CPUs on which the vCPUs of a guest without cells float; empty: any.
    :ivar emulator_pcpus: host CPUs on which the emulator runs; empty: wherever vCPUs may.
    :ivar realtime: vCPUs with the realtime scheduler, and its ``realtime_priority``.
    :ivar cpu_topology: None: the hypervisor's own default. :ivar locked_memory: never swapped out.
    """

    cells: tuple[CellAssignment, ...] = ()
    shared_pcpus: frozenset[int] = frozenset()
    emulator_pcpus: frozenset[int] = frozenset()
    realtime: frozenset[int] = frozenset()
    realtime_priority: int = 1
    cpu_topology: CpuTopology | None = None
    locked_memory: bool = False

    @property
    def pcpus(self) -> int:
        """PCPU: host CPUs dedicated to the guest, its emulator's included."""
        return sum(len(cell.cpu_pinning) + len(cell.cpuset_reserved) for cell in self.cells)

    @property
    def taken(self) -> frozenset[int]:
        """Host CPUs that are this guest's alone, those that are kept idle included."""
        return frozenset[int]().union(*(cell.taken for cell in self.cells))
