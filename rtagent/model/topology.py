"""What the host is made of: capacity only. Usage never enters here (LP1995153)."""

from __future__ import annotations

from collections.abc import Mapping

from rtagent.model.base import Value


class Topology(Value, frozen=True, kw_only=True):
    """The host as the hypervisor describes it.

    :ivar cpus: ids of the online CPUs. :ivar memory_mb: MB. :ivar disk_mb: MB of the file system
        that holds the guests' disks.
    :ivar hypervisor_version: as libvirt counts: major * 1,000,000 + minor * 1,000 + release.
    :ivar cpu_info: arch, model, vendor, topology, features.
    :ivar supported_hv_specs: (arch, hypervisor type, vm mode) of each kind of guest.
    :ivar traits: what the hypervisor can do, as os-traits names.
    """

    cpus: frozenset[int]
    memory_mb: int
    disk_mb: int
    hypervisor_type: str = ""
    hypervisor_version: int = 0
    cpu_info: Mapping[str, object] = {}
    supported_hv_specs: tuple[tuple[str, str, str], ...] = ()
    traits: frozenset[str] = frozenset()
