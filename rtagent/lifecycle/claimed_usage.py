"""The domain usage that a claim stands for."""

from __future__ import annotations

from rtagent.model.assignment import Assignment
from rtagent.model.claim import Claim
from rtagent.model.domain_usage import DomainUsage, Occupancy
from rtagent.pci.mdev import mdev_uuid
from rtagent.pci.pmem import assigned_namespaces


def claimed_usage(claim: Claim) -> DomainUsage:
    """The usage of an active domain that has exactly what its claim assigns.

    Thread siblings that are reserved for the guest are not part of it: nothing runs there.
    """
    assignment = claim.numa_topology or Assignment()
    mediated = [unit for unit in claim.resources if unit.parent_addr]
    pages: dict[int, dict[int, int]] = {}
    memory: dict[int, int] = {}
    for cell in assignment.cells:
        memory[cell.id] = memory.get(cell.id, 0) + cell.memory
        if cell.pagesize is not None:
            pools = pages.setdefault(cell.id, {})
            pools[cell.pagesize] = pools.get(cell.pagesize, 0) + cell.pages
    return DomainUsage(
        domain_uuid=claim.owner_id,
        name=claim.instance.display_name or claim.owner_id,
        active=True,
        vcpus=claim.flavor.vcpus,
        memory_mb=claim.flavor.memory_mb,
        occupancy=Occupancy(
            pcpus=assignment.taken - assignment.kept,
            vcpus=tuple(
                frozenset({cpu}) for cell in assignment.cells for cpu in cell.cpu_pinning.values()
            ),
            memory_mb=memory,
            pages=pages,
            devices=frozenset(device.address for device in claim.pci),
            mdevs=frozenset(mdev_uuid(claim.node_uuid, unit.identifier) for unit in mediated),
            mdev_parents=frozenset(unit.parent_addr for unit in mediated if unit.parent_addr),
            mem_encryption=claim.mem_encryption.model if claim.mem_encryption else None,
            namespaces=frozenset(assigned_namespaces(claim.resources)),
        ),
    )
