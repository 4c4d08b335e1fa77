"""Topology of the host: capacity only, never usage (LP1995153)."""

from collections.abc import Mapping

from rtagent.model.base import Value
from rtagent.model.mem_encryption import EncryptionCapacity


class Cell(Value, frozen=True, kw_only=True):
    """A NUMA node of the host. It may have only memory, or only CPUs.

    :ivar id: libvirt's id. :ivar cpus: ids of the online CPUs.
    :ivar offline: ids of the CPUs that are switched off.
    :ivar memory_mb: MB, in pages of all sizes.
    :ivar siblings: the online threads of each core, in order of the lowest CPU. Without SMT, each
        core has one thread.
    :ivar sockets: ids of the sockets of its CPUs. With sub-NUMA clustering, several cells share a
        socket.
    :ivar distances: the firmware's distance to each cell, by cell id (10 is local).
    :ivar pages: the number of pages of each size (KiB), used or free.
    """

    id: int
    cpus: frozenset[int]
    memory_mb: int
    offline: frozenset[int] = frozenset()
    siblings: tuple[frozenset[int], ...] = ()
    sockets: frozenset[int] = frozenset()
    distances: Mapping[int, int] = {}
    pages: Mapping[int, int] = {}


class Topology(Value, frozen=True, kw_only=True, weakref=True):
    """The host as the hypervisor describes it.

    :ivar cpus: ids of the online CPUs. :ivar memory_mb: MB.
    :ivar disk_mb: MB of the file system with the guests' disks.
    :ivar hypervisor_version: libvirt's number: major * 1,000,000 + minor * 1,000 + release.
    :ivar cpu_info: arch, model, vendor, topology, features.
    :ivar supported_hv_specs: (arch, hypervisor type, vm mode) of each supported type of guest.
    :ivar traits: the hypervisor's capabilities, as os-traits names.
    :ivar mem_encryption: the models of memory encryption that guests can have.
    :ivar cells: the NUMA nodes, in order of their ids; empty if the hypervisor reports none.
    """

    cpus: frozenset[int]
    memory_mb: int
    disk_mb: int
    hypervisor_type: str = ""
    hypervisor_version: int = 0
    cpu_info: Mapping[str, object] = {}
    supported_hv_specs: tuple[tuple[str, str, str], ...] = ()
    traits: frozenset[str] = frozenset()
    cells: tuple[Cell, ...] = ()
    mem_encryption: tuple[EncryptionCapacity, ...] = ()
