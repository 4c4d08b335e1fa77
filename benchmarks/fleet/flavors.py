"""The flavors of the guests of a fleet, and what Placement counts for each."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.fleet.census import DISK, MEMORY, PCPU, VCPU
from rtagent.model.request import Flavor

_PINNED = {"hw:cpu_policy": "dedicated", "hw:mem_page_size": "large"}

#: Half of the guests have CPUs and large pages of their own.
FLAVORS = (
    Flavor(vcpus=1, memory_mb=1024, root_gb=10),
    Flavor(vcpus=2, memory_mb=2048, root_gb=20),
    Flavor(vcpus=2, memory_mb=2048, root_gb=20, extra_specs=_PINNED),
    Flavor(vcpus=4, memory_mb=4096, root_gb=40, extra_specs=_PINNED),
)


def resources(flavor: Flavor) -> Mapping[str, int]:
    """Return the resources of a flavor by class, as they are written down in Nova's manual."""
    cpus = PCPU if flavor.extra_specs else VCPU
    return {cpus: flavor.vcpus, MEMORY: flavor.memory_mb, DISK: flavor.root_gb}


def other_size(flavor: Flavor) -> Flavor:
    """Return the other flavor of the same kind, for a resize."""
    same = [each for each in FLAVORS if each.extra_specs == flavor.extra_specs]
    return next(each for each in same if each != flavor)
