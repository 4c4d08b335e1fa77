"""Profiles: the hardware and CPU sets of lab hosts."""

from __future__ import annotations

from rtagent.model.base import Value


class Profile(Value, frozen=True, kw_only=True):
    """The hardware of a host. Each cell has whole cores, in their order.

    :ivar cores: per socket. :ivar threads: per core. :ivar cells: in total.
    :ivar cell_memory_mb: per cell. :ivar cell_pages: pages of 2 MiB per cell.
    :ivar virtual_functions: the most of the SR-IOV device at the last cell; 0: no such device.
    :ivar grouped_devices: whether two devices share an IOMMU group.
    :ivar cpu_shared_set: and ``cpu_dedicated_set``: options of the agent; "": not set.
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
        """Return the CPUs of a cell."""
        each = self.cpus // self.cells
        return range(cell * each, (cell + 1) * each)


#: By name; the first one is the default of `tools/lab boot`.
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
