"""Weighers of the free resources of a host."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request
from rtagent.scheduler.weigher import Weigher

#: Hosts with this number of available devices or more are not distinguished (Nova's).
_MOST_DEVICES = 100


class RAMWeigher(Weigher):
    """Prefers hosts with more free memory."""

    multiplier_key = "ram_weight_multiplier"
    least = 0.0

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float]:
        return [host.free_ram_mb for host in hosts]


class CPUWeigher(Weigher):
    """Prefers hosts with more free vCPUs, counted with the allocation ratio."""

    multiplier_key = "cpu_weight_multiplier"
    least = 0.0

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float]:
        return [host.vcpus_total * host.cpu_allocation_ratio - host.vcpus_used for host in hosts]


class DiskWeigher(Weigher):
    """Prefers hosts with more free disk."""

    multiplier_key = "disk_weight_multiplier"
    least = 0.0

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float]:
        return [host.free_disk_mb for host in hosts]


class PCIWeigher(Weigher):
    """Prefers hosts with fewer available PCI devices.

    So a request without devices avoids hosts with devices, and requests with devices fill one host
    after the other.
    """

    multiplier_key = "pci_weight_multiplier"

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float]:
        most = _MOST_DEVICES
        return [most - n if (n := host.available_devices) < most else 1 for host in hosts]
