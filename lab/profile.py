"""Profiles: the machines that a lab host can be."""

from __future__ import annotations

from rtagent.model.base import Value


class Profile(Value, frozen=True, kw_only=True):
    """Cells are made of cores in their order, and never of parts of one.

    :ivar cores: of each socket. :ivar threads: of each core. :ivar cells: in all.
    :ivar cell_memory_mb: of each cell. :ivar cell_pages: of 2 MiB, of each cell.
    :ivar virtual_functions: that an SR-IOV device on the last cell can have; 0: no such device.
    :ivar grouped_devices: whether two devices share an IOMMU group.
    :ivar cpu_shared_set: and cpu_dedicated_set: what the agent is configured with; "": nothing.
    """

    sockets: int = 1
    cores: int = 2
    threads: int = 1
    cells: int = 1
    cell_memory_mb: int = 1536
    cell_pages: int = 64
    virtual_functions: int = 0
    grouped_devices: bool = False
    cpu_shared_set: str = ""
    cpu_dedicated_set: str = ""

    @property
    def cpus(self) -> int:
        return self.sockets * self.cores * self.threads

    def cell_cpus(self, cell: int) -> range:
        """The CPUs of a cell."""
        each = self.cpus // self.cells
        return range(cell * each, (cell + 1) * each)


#: By name; the first one is what `tools/lab boot` boots.
PROFILES = {
    "two-sockets": Profile(
        sockets=2,
        threads=2,
        cells=2,
        virtual_functions=4,
        cpu_shared_set="0-1",
        cpu_dedicated_set="2-7",
    ),
    "four-cells": Profile(
        sockets=2, cores=4, cells=4, cell_memory_mb=768, cell_pages=16, virtual_functions=4
    ),
    "shared-group": Profile(grouped_devices=True),
    "no-sriov": Profile(cores=4),
}
