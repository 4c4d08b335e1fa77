"""Weighers of the policies soft-affinity and soft-anti-affinity."""

from __future__ import annotations

from collections.abc import Sequence

from rtagent.scheduler.host_state import HostState
from rtagent.scheduler.request import Request
from rtagent.scheduler.weigher import Weigher


class ServerGroupSoftAffinityWeigher(Weigher):
    """Prefers hosts with more instances of the server group, if its policy is soft-affinity."""

    multiplier_key = "soft_affinity_weight_multiplier"

    def weights(self, hosts: Sequence[HostState], request: Request) -> Sequence[float] | None:
        return _of_group(hosts, request, "soft-affinity")


class ServerGroupSoftAntiAffinityWeigher(Weigher):
    """Prefers hosts with fewer instances of the server group, if its policy is
    soft-anti-affinity.
    """

    multiplier_key = "soft_anti_affinity_weight_multiplier"

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
