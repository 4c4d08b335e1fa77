"""HostFacts: what the host says about the names and sizes in domain documents. Pure."""

from collections.abc import Iterable, Iterator, Mapping

from rtagent.model.base import Value
from rtagent.model.device import Mdev
from rtagent.model.topology import Cell


class HostFacts(Value, frozen=True, kw_only=True):
    """The host as of the last observation. What could not be read is empty.

    :ivar online: the host's CPUs. :ivar cells: its NUMA nodes.
    :ivar hugepage_kib: the size of the pages of a guest that names no size (the kernel's default);
        None: unknown.
    :ivar vdpas: addresses of the PCI devices that have vDPA devices, by the path of the latter;
        None: no PCI device has it.
    :ivar interfaces: addresses of PCI devices, by the name of their network interface; None: the
        interface is of no PCI device.
    :ivar namespaces: names of persistent memory namespaces, by path; None: they could never be
        listed.
    :ivar mdevs: mediated devices of PCI devices, by uuid.
    :ivar other_mdevs: uuids of mediated devices that have another parent, which no claim has.
    """

    online: frozenset[int] = frozenset()
    cells: tuple[Cell, ...] = ()
    hugepage_kib: int | None = None
    vdpas: Mapping[str, str | None] = {}
    interfaces: Mapping[str, str | None] = {}
    namespaces: Mapping[str, str] | None = {}
    mdevs: Mapping[str, Mdev] = {}
    other_mdevs: frozenset[str] = frozenset()

    def of_no_pci_device(self, mdevs: Iterable[str], vdpas: Iterable[str]) -> Iterator[str]:
        """Yield the uuids and paths that are of no PCI device, so that no claim has them."""
        yield from self.other_mdevs.intersection(mdevs)
        yield from (path for path in vdpas if self.vdpas.get(path, "") is None)

    @property
    def cell_ids(self) -> frozenset[int]:
        """The ids of its NUMA nodes."""
        return frozenset(cell.id for cell in self.cells)

    def confines(self, cpus: frozenset[int]) -> bool:
        """Return whether a thread that is pinned to these CPUs cannot run on some of the host's.
        While those are unknown, it cannot.
        """
        return bool(cpus) and (not self.online or bool(self.online - cpus))

    @property
    def page_sizes(self) -> tuple[int, ...]:
        """The sizes (KiB) of the host's pages, smallest first."""
        return tuple(sorted({size for cell in self.cells for size in cell.pages}))

    def pages(self, cell_id: int, size: int) -> int:
        """Return the number of pages of a size that a cell has."""
        return sum(cell.pages.get(size, 0) for cell in self.cells if cell.id == cell_id)
