"""The weighers that are shipped, see `Weigher`."""

from collections.abc import Iterator, Mapping, Sequence

from rtagent.model.host_report import InstanceInfo
from rtagent.model.owners import main_claims
from rtagent.scheduler.filter import Request
from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.weigher import Weigher

#: Hosts with this number of available devices or more are not distinguished (Nova's).
_MOST_DEVICES = 100


class RAMWeigher(Weigher):
    """Prefers hosts with more free memory."""

    multiplier_key = "ram_weight_multiplier"
    counts = "MB of free memory"
    least = 0.0
    field = "free_ram_mb"


class CPUWeigher(Weigher):
    """Prefers hosts with more free vCPUs, counted with the allocation ratio."""

    multiplier_key = "cpu_weight_multiplier"
    counts = "free vCPUs"
    least = 0.0

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float]:
        return [host.vcpus_total * host.cpu_allocation_ratio - host.vcpus_used for host in hosts]


class DiskWeigher(Weigher):
    """Prefers hosts with more free disk."""

    multiplier_key = "disk_weight_multiplier"
    counts = "MB of free disk"
    least = 0.0
    field = "free_disk_mb"


class PCIWeigher(Weigher):
    """Prefers hosts with fewer available PCI devices.

    So a request without devices avoids hosts with devices, and requests with devices fill one host
    after the other.
    """

    multiplier_key = "pci_weight_multiplier"
    counts = "free devices"

    def counted(self, raw: float) -> float:
        return _MOST_DEVICES - raw

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float]:
        most = _MOST_DEVICES
        return [most - n if (n := host.available_devices) < most else 1 for host in hosts]


class IoOpsWeigher(Weigher):
    """Prefers, by its negative multiplier, hosts where fewer instances load the disks."""

    multiplier_key = "io_ops_weight_multiplier"
    counts = "busy instances"
    least = 0.0
    field = "num_io_ops"


class NumInstancesWeigher(Weigher):
    """Prefers hosts with more instances."""

    multiplier_key = "num_instances_weight_multiplier"
    counts = "instances"
    field = "num_instances"


class BuildFailureWeigher(Weigher):
    """Avoids hosts where builds failed recently."""

    multiplier_key = "build_failure_weight_multiplier"
    counts = "failed builds"
    sign = -1
    field = "failed_builds"


class ServerGroupSoftAffinityWeigher(Weigher):
    """Prefers hosts with more instances of the server group, if its policy is soft-affinity."""

    multiplier_key = "soft_affinity_weight_multiplier"
    counts = "instances of the server group"

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float] | None:
        return _of_group(hosts, request, "soft-affinity")


class ServerGroupSoftAntiAffinityWeigher(Weigher):
    """Prefers hosts with fewer instances of the server group, if its policy is
    soft-anti-affinity.
    """

    multiplier_key = "soft_anti_affinity_weight_multiplier"
    counts = "instances of the server group"

    def counted(self, raw: float) -> float:
        return -raw

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float] | None:
        numbers = _of_group(hosts, request, "soft-anti-affinity")
        return None if numbers is None else [-number for number in numbers]


def _of_group(hosts: Sequence[HostState], request: Request, policy: str) -> list[int] | None:
    """Return how many instances of the group each host has; None: it has not this policy."""
    group = request.spec.instance_group
    if group is None or group.policy != policy:
        return None
    instances = frozenset(group.members)
    return [len(instances & host.instances_here) for host in hosts]


class CrossCellWeigher(Weigher):
    """Makes no difference. It exists so that configurations that name it stay valid."""

    multiplier_key = "cross_cell_move_weight_multiplier"

    def weights(self, hosts: Sequence[HostState], request: Request) -> None:
        return None


class HypervisorVersionWeigher(Weigher):
    """Prefers hosts with a newer hypervisor."""

    multiplier_key = "hypervisor_version_weight_multiplier"
    field = "hypervisor_version"


class ImagePropertiesWeigher(Weigher):
    """Prefers hosts with more instances whose images have the properties of the requested one.

    A host weighs, for each requested property, the number of its instances with that value, times
    the ratio in ``image_props_weight_setting``; if that option is empty, times 1.
    """

    multiplier_key = "image_props_weight_multiplier"

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float] | None:
        ratios = self.options.image_props_weight_setting
        wanted = {
            (name, value): ratios.get(name, 0.0) if ratios else 1.0
            for name, value in request.spec.image.properties.items()
        }
        return [_weight(host, wanted) for host in hosts] if any(wanted.values()) else None


def _weight(host: HostState, wanted: Mapping[tuple[str, str], float]) -> float:
    infos = (host.instances[uuid] for uuid in sorted(host.instances_here))
    found = (item for info in infos for item in _properties(info))
    return sum(wanted.get(item, 0.0) for item in found)


def _properties(info: InstanceInfo) -> Iterator[tuple[str, str]]:
    """Yield the image properties of an instance: those of its newest claim."""
    newest = max(main_claims(info.claims), key=lambda claim: claim.revision, default=None)
    yield from newest.image.properties.items() if newest else ()


class MetricsWeigher(Weigher):
    """Prefers hosts with a larger sum of the metrics in ``[metrics] weight_setting``, each times
    its ratio.

    A host that lacks one of them comes after all others if metrics are required, and weighs
    ``weight_of_unavailable`` if not.
    """

    multiplier_key = "metrics_weight_multiplier"

    @property
    def multiplier(self) -> float:
        return self.options.metrics.weight_multiplier

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float] | None:
        if not self.options.metrics.weight_setting:
            return None
        return [self._weight(host) for host in hosts]

    def _weight(self, host: HostState) -> float:
        """:raises LookupError: the host lacks a required metric."""
        metrics, weight = self.options.metrics, 0.0
        values = {each.name: each.value for each in host.metrics}
        for name, ratio in metrics.weight_setting.items():
            if name in values:
                weight += values[name] * ratio
            elif metrics.required:
                raise LookupError(f"the host has no metric {name}, which is required")
            elif ratio and self.multiplier_of(host):
                return metrics.weight_of_unavailable
        return weight
