"""Weighers of the instances, the I/O and the failed builds of a host."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request
from rtagent.scheduler.weigher import Weigher


class IoOpsWeigher(Weigher):
    """Prefers, by its negative multiplier, hosts where fewer instances load the disks."""

    multiplier_key = "io_ops_weight_multiplier"
    least = 0.0

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float]:
        return [host.num_io_ops for host in hosts]


class NumInstancesWeigher(Weigher):
    """Prefers hosts with more instances."""

    multiplier_key = "num_instances_weight_multiplier"

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float]:
        return [host.num_instances for host in hosts]


class BuildFailureWeigher(Weigher):
    """Avoids hosts where builds failed recently."""

    multiplier_key = "build_failure_weight_multiplier"
    sign = -1

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float]:
        return [host.failed_builds for host in hosts]
