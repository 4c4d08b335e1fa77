"""HostState: one host as the scheduler sees it, immutable."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import asdict

from rtagent.allocation.capacity import Capacity, capacity_of
from rtagent.allocation.kept_views import carry_device_views
from rtagent.model.base import Value
from rtagent.model.host_report import InstanceInfo, ServiceState
from rtagent.model.metric import Metric
from rtagent.model.node import Aggregate
from rtagent.model.node_state import NodeState
from rtagent.model.stats import io_workload
from rtagent.model.stored import Position
from rtagent.model.units import MB_IN_GB
from rtagent.model.usage import memory_mb
from rtagent.pci.allocations import device_allocations
from rtagent.state.compute_node import numa_topology, pci_device_pools, quantities, ratios


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


def replica_fields(replica: NodeState, before: HostState | None = None) -> dict[str, Any]:
    """Return the fields of a host's state that its replica determines.

    The quantities are those of the node's record (Nova's ComputeNode): used ones include what is
    reserved. Statistics are counted from the claims.

    :param replica: the node's state, with assumed claims.
    :param before: the state before this one. Parts that did not change are reused.
    """
    return {
        "replica": replica,
        "host": replica.node.host,
        "nodename": replica.node.hypervisor_hostname,
        "uuid": replica.node.uuid,
        "host_ip": replica.node.host_ip,
        "capacity": capacity_of(replica),
        "num_instances": replica.counters.get("num_instances", 0),
        "num_io_ops": io_workload(replica.counters),
        "failed_builds": replica.failed_builds,
        "available_devices": _available_devices(replica, before),
        **ratios(replica.policy),
        **_quantities(replica),
        **_described(replica),
    }


def _available_devices(replica: NodeState, before: HostState | None) -> int:
    if not replica.devices:
        return 0
    if before is not None and _devices_in_use(replica) == _devices_in_use(before.replica):
        carry_device_views(before.replica, replica)
        return before.available_devices
    return sum(len(each.addresses) for each in device_allocations(replica).available())


def _devices_in_use(replica: NodeState) -> tuple[object, ...]:
    """Return a key that changes when other devices are available. Replicas of one description share
    its parts.
    """
    claims = [each for each in replica.claims.values() if each.pci or each.resources]
    described = id(replica.devices), id(replica.policy), id(replica.topology)
    return described, replica.node, replica.domain_usages, claims


def _quantities(replica: NodeState) -> dict[str, Any]:
    fields, policy = quantities(replica), replica.policy
    disk_used = policy.reserved_disk_mb + replica.usage.disk_mb
    disk_mb = replica.topology.disk_mb if replica.topology else 0
    least = replica.disk_available_least
    free_disk = disk_mb - disk_used
    return {
        "free_ram_mb": fields["free_ram_mb"],
        "free_disk_mb": free_disk if least is None else min(free_disk, least * MB_IN_GB),
        "disk_mb_used": disk_used,
        "vcpus_used": fields["vcpus_used"],
        "stats": fields["stats"],
    }


def _described(replica: NodeState) -> dict[str, Any]:
    topology, policy = replica.topology, replica.policy
    if topology is None:
        return {}
    sets = policy.numa
    return {
        "vcpus_total": len(sets.shared(topology.cpus) | sets.dedicated(topology.cpus)),
        "total_usable_ram_mb": memory_mb(topology, policy),
        "total_usable_disk_gb": topology.disk_mb // MB_IN_GB,
        "hypervisor_type": topology.hypervisor_type,
        "hypervisor_version": topology.hypervisor_version,
        "cpu_info": topology.cpu_info,
        "supported_instances": topology.supported_hv_specs,
    }


#: Names of Nova's HostState that no claim changes.
FIXED = frozenset(
    {
        *("host", "nodename", "uuid", "host_ip", "hypervisor_hostname"),
        *("total_usable_ram_mb", "total_usable_disk_gb", "vcpus_total"),
        *("cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
        *("hypervisor_type", "hypervisor_version", "cpu_info", "supported_instances", "service"),
    }
)
#: All names. Objects that have no text form are left out: aggregates, instances.
FIELDS = FIXED | {
    *("free_ram_mb", "free_disk_mb", "disk_mb_used", "vcpus_used"),
    *("num_instances", "num_io_ops", "failed_builds", "stats", "numa_topology", "pci_stats"),
}


def field(host: HostState, path: Sequence[str]) -> Any:
    """Return the value at a path, of which the first name is in `FIELDS`; None: there is none."""
    first, *keys = path
    value: Any = getattr(host, first)
    if first == "service":
        value = {"host": host.host, **asdict(value)}
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
