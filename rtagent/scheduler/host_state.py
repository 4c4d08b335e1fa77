"""HostState: one host as the scheduler sees it, immutable."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rtagent.allocation.capacity import Capacity
from rtagent.model.aggregate import Aggregate
from rtagent.model.base import Value
from rtagent.model.host_report import InstanceInfo, ServiceState
from rtagent.model.metric import Metric
from rtagent.model.node_state import NodeState
from rtagent.model.position import Position
from rtagent.state.compute_node import numa_topology, pci_device_pools


class HostState(Value, frozen=True, kw_only=True, weakref=True):
    """A host with the names of Nova's HostState. Assumed claims are counted in everything.

    Plain fields are computed once for each change of the host, because filters and weighers read
    them for every request.

    :ivar replica: the node's state, with assumed claims; `allocate` on it decides whether a claim
        fits.
    :ivar base: epoch and revision of the report. :ivar version: changes with every change of the
        replica, assumed claims included; verdicts are kept by it.
    :ivar seen: when the last message of the agent came, on the scheduler's monotonic clock.
    :ivar page_url: what the agent reports as the URL of its own pages; not checked.
    :ivar service: the record of the service. :ivar up: the agent grants claims.
    :ivar aggregates: the aggregates that the host is in, sorted by uuid.
    :ivar instances: the owners of claims and domains on the host, by uuid, assumed ones included. A
        value is decoded when it is read, which is slow: read it for few hosts only.
    :ivar instance_uuids: their uuids, as a set, which is quick to look into.
    :ivar instances_here: uuids of those that are on the host now: they have arrived and not left.
    :ivar differing: the number of domains that differ from their claims, or have none.
    :ivar free_disk_mb: the smaller of the unclaimed disk and ``disk_available_least``.
    :ivar available_devices: the number of PCI devices in all of `pci_stats`.
    """

    replica: NodeState
    base: Position
    version: int
    seen: float
    capacity: Capacity
    host: str
    nodename: str
    uuid: str
    host_ip: str = ""
    page_url: str = ""
    service: ServiceState = ServiceState()
    up: bool = True
    why_not: str = ""
    aggregates: tuple[Aggregate, ...] = ()
    instances: Mapping[str, InstanceInfo] = {}
    instance_uuids: frozenset[str] = frozenset()
    instances_here: frozenset[str] = frozenset()
    differing: int = 0
    free_ram_mb: int = 0
    total_usable_ram_mb: int = 0
    free_disk_mb: int = 0
    total_usable_disk_gb: int = 0
    disk_mb_used: int = 0
    vcpus_total: int = 0
    vcpus_used: int = 0
    cpu_allocation_ratio: float = 1.0
    ram_allocation_ratio: float = 1.0
    disk_allocation_ratio: float = 1.0
    num_instances: int = 0
    num_io_ops: int = 0
    failed_builds: int = 0
    available_devices: int = 0
    hypervisor_type: str = ""
    hypervisor_version: int = 0
    cpu_info: Mapping[str, Any] = {}
    supported_instances: tuple[tuple[str, str, str], ...] = ()
    stats: Mapping[str, int] = {}
    metrics: tuple[Metric, ...] = ()

    @property
    def hypervisor_hostname(self) -> str:
        """The same as ``nodename``."""
        return self.nodename

    @property
    def updated(self) -> Position:
        """Epoch and revision of the last report: a record that is older is ignored."""
        return self.base

    @property
    def judges_amounts(self) -> bool:
        """Whether the agent refuses a claim for want of vCPUs, memory or disk."""
        return self.replica.policy.judges_amounts

    def fits(self, vcpus: int, pcpus: int, memory_mb: int, disk_mb: int) -> bool:
        """Return whether the host as a whole has enough, see `Capacity.fits`."""
        judged = self.judges_amounts
        return self.capacity.fits(vcpus, pcpus, memory_mb, disk_mb, judged=judged)

    @property
    def numa_topology(self) -> dict[str, Any] | None:
        """The cells, see `rtagent.state.compute_node.numa_topology`."""
        return numa_topology(self.replica)

    @property
    def pci_stats(self) -> list[dict[str, Any]]:
        """The pools of available devices, see `rtagent.state.compute_node.pci_device_pools`."""
        return pci_device_pools(self.replica)

    def metadata(self, key: str) -> frozenset[str]:
        """Return the values that the host's aggregates have for a key; empty: none has it."""
        return frozenset(each.metadata[key] for each in self.aggregates if key in each.metadata)


def with_capacity(
    hosts: Iterable[HostState], vcpus: int, pcpus: int, memory_mb: int, disk_mb: int
) -> list[HostState]:
    """Return the hosts of which `HostState.fits` is true, in one pass, mostly without calls."""
    return [
        host
        for host in hosts
        if (
            (
                vcpus <= (has := host.capacity).total_vcpus
                and (vcpus <= has.free_vcpus or not vcpus)
                and memory_mb <= has.total_memory_mb
                and (memory_mb <= has.free_memory_mb or not memory_mb)
                and (not has.disk_checked or disk_mb <= has.total_disk_mb)
                and (not has.disk_checked or disk_mb <= has.free_disk_mb or not disk_mb)
            )
            or not host.judges_amounts
        )
        and (not pcpus or host.fits(vcpus, pcpus, memory_mb, disk_mb))
    ]
