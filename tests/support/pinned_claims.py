"""Claims with pinned CPUs."""

from __future__ import annotations

from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.claim import Claim
from rtagent.model.flavor import Flavor
from rtagent.model.instance import InstanceFacts
from tests.support.hosts import NODE, NOON, uid


def pinned_claim(
    *cpus: int,
    kept: tuple[int, ...] = (),
    owner: str | None = None,
    name: str | None = None,
    cell: int = 0,
    memory_mb: int = 1024,
    pagesize: int | None = None,
) -> Claim:
    """An active claim whose guest cell is pinned to these CPUs."""
    placed = CellAssignment(
        id=cell,
        memory=memory_mb,
        cpu_pinning=dict(enumerate(cpus)),
        cpuset_kept=frozenset(kept),
        pagesize=pagesize,
    )
    return Claim(
        uuid=uid(),
        host=NODE.host,
        node=NODE.hypervisor_hostname,
        node_uuid=NODE.uuid,
        owner_id=owner or uid(),
        state="active",
        vcpus=0,
        pcpus=len(cpus),
        memory_mb=memory_mb,
        disk_mb=0,
        created_at=NOON,
        updated_at=NOON,
        revision=0,
        instance=InstanceFacts(display_name=name),
        flavor=Flavor(vcpus=max(1, len(cpus)), memory_mb=memory_mb),
        numa_topology=Assignment(cells=(placed,)),
    )
