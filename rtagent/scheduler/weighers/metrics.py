"""MetricsWeigher: hosts by what their monitors measured."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request
from rtagent.scheduler.weigher import Weigher


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
        if not math.isfinite(weight):
            raise ValueError(f"the sum of the host's metrics is {weight}")
        return weight
