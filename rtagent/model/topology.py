"""What the host is made of: capacity only. Usage never enters here (LP1995153)."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.base import Value


class Cell(Value, frozen=True, kw_only=True):
    """A NUMA node of the host. It may have memory alone, or CPUs alone.

    :ivar id: libvirt's. :ivar cpus: ids of its online CPUs. :ivar offline: of those that are there
        and switched off. :ivar memory_mb: MB, in pages of every size.
    :ivar siblings: the online threads of each core, by their lowest CPU; of one thread each on a
        host without SMT.
    :ivar sockets: that its CPUs sit in, by id; sub-NUMA clustering puts cells into one socket.
    :ivar distances: to each cell, by its id, as the firmware tells (10 is here).
    :ivar pages: how many pages there are of each size (KiB), used or not.
    """

    id: int
    cpus: frozenset[int]
    memory_mb: int
    offline: frozenset[int] = frozenset()
    siblings: tuple[frozenset[int], ...] = ()
    sockets: frozenset[int] = frozenset()
    distances: Mapping[int, int] = {}
    pages: Mapping[int, int] = {}


class Topology(Value, frozen=True, kw_only=True):
    """The host as the hypervisor describes it.

    :ivar cpus: ids of the online CPUs. :ivar memory_mb: MB. :ivar disk_mb: MB of the file system
        that holds the guests' disks.
    :ivar hypervisor_version: as libvirt counts: major * 1,000,000 + minor * 1,000 + release.
    :ivar cpu_info: arch, model, vendor, topology, features.
    :ivar supported_hv_specs: (arch, hypervisor type, vm mode) of each kind of guest.
    :ivar traits: what the hypervisor can do, as os-traits names.
    :ivar cells: its NUMA nodes, by id; none when the hypervisor tells of none.
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
