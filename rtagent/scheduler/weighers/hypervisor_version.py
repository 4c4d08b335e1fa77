"""HypervisorVersionWeigher: prefers newer hypervisors."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request
from rtagent.scheduler.weigher import Weigher


class HypervisorVersionWeigher(Weigher):
    """Prefers hosts with a newer hypervisor."""

    multiplier_key = "hypervisor_version_weight_multiplier"

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float]:
        return [host.hypervisor_version for host in hosts]
