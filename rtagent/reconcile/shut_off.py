"""Checks that a host still has what a domain that is shut off needs.

The usage of the host includes running domains only, so others may have what it needs.
"""

from __future__ import annotations

from collections.abc import Iterator

from rtagent.allocation.capacity import shortfalls
from rtagent.allocation.unknown_usage import unknown_usage
from rtagent.errors import DomainNotAdoptable
from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.claim import Claim
from rtagent.model.domain_usage import HostResource
from rtagent.model.node_state import NodeState
from rtagent.model.usage import Usage, assignment_usage
from rtagent.numa.host_cells import page_pools
from rtagent.pci.allocations import device_allocations
from rtagent.pci.assigned_resources import resource_users
from rtagent.pci.mdev import mdev_uuid


def check_available(state: NodeState, claim: Claim) -> None:
    """Check that the claim of a domain that is shut off takes nothing that others use.

    :param state: without the claim.
    :raises DomainNotAdoptable: it does, or the host has too little.
    """
    taken = [*_quantities(state, claim), *_cpus(state, claim), *_cells(state, claim)]
    taken += [*_devices(state, claim), *_resources(state, claim)]
    if taken:
        raise DomainNotAdoptable(f"it is shut off, and others use what it needs: {taken[0]}")


def _quantities(state: NodeState, claim: Claim) -> Iterator[str]:
    required = Usage(
        vcpus=claim.vcpus, pcpus=claim.pcpus, memory_mb=claim.memory_mb, disk_mb=claim.disk_mb
    )
    yield from map(str, shortfalls(state, claim.owner_id, required))
    cells = (claim.numa_topology or Assignment()).cells
    needs = {
        HostResource.SIZES: claim.memory_mb,
        HostResource.CPUS: claim.pcpus,
        HostResource.CELLS: len(cells),
        HostResource.PAGES: sum(each.hugepages for each in cells),
        HostResource.DEVICES: len(claim.pci) + len(claim.resources),
        HostResource.ENCRYPTION: int(claim.mem_encryption is not None),
    }
    yield from map(str, unknown_usage(state, claim.owner_id, needs))


def _cpus(state: NodeState, claim: Claim) -> Iterator[str]:
    numa = state.usage.numa
    used = numa.pinned.keys() | numa.kept.keys()
    for cpu in sorted((claim.numa_topology or Assignment()).taken & used):
        yield f"host CPU {cpu}"


def _cells(state: NodeState, claim: Claim) -> Iterator[str]:
    """Yield the cells that have too little memory, or too few pages of the claim's sizes."""
    assert state.topology is not None
    assignment = claim.numa_topology or Assignment()
    after = state.usage.numa.plus(assignment_usage(assignment))
    ratio = state.policy.ram_allocation_ratio
    for cell in state.topology.cells:
        here = [each for each in assignment.cells if each.id == cell.id]
        pools = page_pools(cell, after, state.policy.numa)
        for size in sorted(_sizes(here)):
            if size not in pools or pools[size][1] < 0:
                yield f"pages of {size} KiB at cell {cell.id}"
        if here and after.memory_mb.get(cell.id, 0) > int(cell.memory_mb * ratio):
            yield f"memory of cell {cell.id}"


def _sizes(cells: list[CellAssignment]) -> set[int]:
    return {each.pagesize for each in cells if each.pagesize is not None}


def _devices(state: NodeState, claim: Claim) -> Iterator[str]:
    allocations = device_allocations(state)
    for device in claim.pci:
        others = [
            each.owner_id
            for each in allocations.allocations_of(device.address)
            if each.owner_id != claim.owner_id
        ]
        related = allocations.unavailability(device.address, claim.owner_id)
        if others:
            yield f"PCI device {device.address}, which {others[0]} has"
        elif related is not None:
            yield f"PCI device {device.address}: {related.reason}"


def _resources(state: NodeState, claim: Claim) -> Iterator[str]:
    # The inventories lack what others made, and so do the users of resources: a running domain
    # without a claim is found by the uuids of its mediated devices.
    running = (usage for usage in state.domain_usages.values() if usage.active)
    unclaimed = {uuid: each.domain_uuid for each in running for uuid in each.occupancy.mdevs}
    users = resource_users(state)
    for unit in claim.resources:
        owner = users.get(unit.identifier)
        if owner is None and unit.parent_addr:
            owner = unclaimed.get(mdev_uuid(state.node.uuid, unit.identifier))
        if owner not in (None, claim.owner_id):
            yield f"{unit.resource_class} {unit.identifier}, which {owner} has"
