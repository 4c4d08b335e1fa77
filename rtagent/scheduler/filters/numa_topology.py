"""NUMATopologyFilter: hosts whose cells, CPUs and pages the claim fits."""

from __future__ import annotations

from rtagent.numa.requirements import numa_requirements
from rtagent.scheduler.filter import Check, Filter
from rtagent.scheduler.fits import fit_check
from rtagent.scheduler.request import Request


class NUMATopologyFilter(Filter):
    """Refuse a host that the claim of a guest with NUMA cells does not fit.

    The agents' own rule decides, with everything else that the claim needs, so that cells and
    devices are chosen together.
    """

    cost = 2
    every_instance = True

    def prepare(self, request: Request) -> Check | None:
        """Judge guests with cells: pinned, with page sizes, with persistent memory, for example."""
        flavor, image = request.spec.flavor, request.spec.image.properties
        required = numa_requirements(flavor.vcpus, flavor.memory_mb, flavor.extra_specs, image)
        return fit_check(request) if required.cells else None
