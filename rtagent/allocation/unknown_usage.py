"""Resources that no claim gets while it is unknown what a running domain has of them."""

from collections.abc import Iterator, Mapping

from rtagent.allocation.requirements import Requirements
from rtagent.model.decision import Reason, ReasonCode
from rtagent.model.derived import derived
from rtagent.model.domain_usage import DomainUsage, HostResource
from rtagent.model.mem_encryption import RESOURCE_CLASS
from rtagent.model.node_state import NodeState
from rtagent.model.units import PageRequest, candidates
from rtagent.pci.assigned_resources import ResourceRequest

#: Resource and unit of the reasons for each kind.
_NAMES: Mapping[HostResource, tuple[str, str]] = {
    HostResource.SIZES: ("MEMORY_MB", "MB"),
    HostResource.CPUS: ("PCPU", "CPUs"),
    HostResource.CELLS: ("NUMA_CELL", "cells"),
    HostResource.PAGES: ("large pages", "cells"),
    HostResource.DEVICES: ("devices", "devices"),
    HostResource.ENCRYPTION: (RESOURCE_CLASS, "contexts"),
}


def needs_of(
    state: NodeState, required: Requirements, units: Mapping[str, ResourceRequest]
) -> Mapping[HostResource, int]:
    """Return how much of each kind a claim requires, in the unit of its reason.

    :param units: the requested assigned resources, by resource class.
    """
    cells = state.topology.cells if state.topology is not None else ()
    sizes = {size for cell in cells for size in cell.pages}
    return {
        # Placement alone may decide on the sizes.
        HostResource.SIZES: required.usage.memory_mb if state.policy.judges_amounts else 0,
        HostResource.CPUS: required.usage.pcpus,
        HostResource.CELLS: len(required.numa.cells),
        HostResource.PAGES: sum(_large(cell.pagesize, sizes) for cell in required.numa.cells),
        HostResource.DEVICES: sum(each.count for each in required.devices)
        + sum(each if isinstance(each, int) else len(each) for each in units.values()),
        HostResource.ENCRYPTION: int(required.mem_encryption is not None),
    }


def unknown_usage(
    state: NodeState, owner_id: str, needs: Mapping[HostResource, int]
) -> Iterator[Reason]:
    """Yield a reason for each needed kind of which running domains may have more than is known.

    :param owner_id: what its own domain has is not another's.
    """
    for kind, domains in running_with_unknown(state).items():
        others = [each for each in domains if each.domain_uuid != owner_id]
        if others and needs.get(kind):
            resource, unit = _NAMES[kind]
            more = f" and of {len(others) - 1} more" if len(others) > 1 else ""
            yield Reason(
                code=ReasonCode.UNKNOWN_USAGE,
                resource=resource,
                where=state.node.hypervisor_hostname,
                requested=needs[kind],
                available=0,
                unit=unit,
                domain=f"{others[0].domain_uuid} ({others[0].name}){more}",
            )


@derived
def running_with_unknown(state: NodeState) -> Mapping[HostResource, list[DomainUsage]]:
    """Return the running domains of which each kind is unknown, ordered by uuid."""
    found: dict[HostResource, list[DomainUsage]] = {}
    for usage in state.domain_usages.values():
        for kind in usage.occupancy.unknown if usage.active else ():
            found.setdefault(kind, []).append(usage)
    return {kind: sorted(found[kind], key=lambda each: each.domain_uuid) for kind in sorted(found)}


def _large(request: PageRequest | None, sizes: set[int]) -> bool:
    """Return whether a guest cell may get other pages than the smallest of the host."""
    return request is not None and any(s > min(sizes) for s in candidates(request, sizes))
