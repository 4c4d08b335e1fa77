"""JSON views of a host's CPUs, NUMA cells and memory pages: use and owner."""

from collections.abc import Iterator, Mapping
from typing import Any

from rtagent.api.nodes import check_served
from rtagent.api.pci import claim_of
from rtagent.model.base import Value
from rtagent.model.claim import PCPU, Claim
from rtagent.model.node_state import NodeState
from rtagent.model.topology import Cell, Topology
from rtagent.numa.host_cells import CellCapacity, cell_capacities

#: The uses of a host CPU: pinned by a claim; left idle for a pinned sibling; for shared vCPUs; free
#: for pinning; used by a domain without a claim; the host's own; offline.
CLAIMED, KEPT, SHARED, FREE, FOREIGN, HOST, OFFLINE = USES = (
    *("claimed", "kept", "shared", "free", "foreign", "host", "offline"),
)


class Cpu(Value, frozen=True, kw_only=True):
    """One host CPU.

    :ivar use: one of `USES`.
    :ivar owner_id: uuid of the instance or of the foreign domain; None: no owner.
    :ivar name: of the instance or domain. :ivar claim_uuid: None: no claim has the CPU.
    :ivar intruders: uuids of other domains that are pinned to it.
    """

    id: int
    use: str
    owner_id: str | None = None
    name: str | None = None
    claim_uuid: str | None = None
    intruders: tuple[str, ...] = ()


class Pool(Value, frozen=True, kw_only=True):
    """Memory pages of one size.

    :ivar size_kb: KiB.
    :ivar used: pages. Memory without an explicit page size counts as pages of the smallest size.
    :ivar free: pages; negative if more are used than exist.
    """

    size_kb: int
    total: int
    reserved: int
    used: int
    free: int


class CellMap(Value, frozen=True, kw_only=True):
    """One NUMA cell.

    :ivar memory_mb: MB. :ivar memory_used_mb: MB of the claims that are assigned to cells.
    :ivar vcpus: shared vCPUs of the claims that are assigned to this cell.
    :ivar cores: for each core its CPUs; for each CPU that is offline a core of its own.
    """

    id: int
    sockets: tuple[int, ...]
    memory_mb: int
    memory_used_mb: int
    vcpus: int
    cores: tuple[tuple[Cpu, ...], ...]
    pages: tuple[Pool, ...]


def hosts(state: NodeState) -> Mapping[str, Any]:
    """``{"numa": [host]}``; an agent serves one."""
    return {"numa": [document(state)]}


def host(state: NodeState, name: str) -> Mapping[str, Any]:
    """``{"numa": host}``.

    :param name: the node's uuid or its hypervisor_hostname.
    :raises NodeNotFound:
    """
    check_served(state, name)
    return {"numa": document(state)}


def document(state: NodeState) -> dict[str, Any]:
    """``{"uuid", "hypervisor_hostname", "cells": [CellMap]}``; no cells if the hypervisor reports
    none, or has not been observed yet."""
    return {
        "uuid": state.node.uuid,
        "hypervisor_hostname": state.node.hypervisor_hostname,
        "cells": tuple(_cells(state, state.topology)) if state.topology else (),
    }


def _cells(state: NodeState, topology: Topology) -> Iterator[CellMap]:
    uses = _Uses(state, topology)
    capacities = cell_capacities(topology, state.usage.numa, state.policy.numa)
    for cell, capacity in zip(topology.cells, capacities, strict=True):
        yield CellMap(
            id=cell.id,
            sockets=tuple(sorted(cell.sockets)),
            memory_mb=capacity.memory_mb,
            memory_used_mb=capacity.memory_used,
            vcpus=capacity.vcpus,
            cores=tuple(tuple(map(uses.cpu, core)) for core in _cores(cell)),
            pages=tuple(_pools(capacity, state.policy.numa.reserved_huge_pages.get(cell.id, {}))),
        )


def _cores(cell: Cell) -> Iterator[tuple[int, ...]]:
    in_cores = frozenset[int]().union(*cell.siblings)
    single = (frozenset({cpu}) for cpu in (cell.cpus | cell.offline) - in_cores)
    for core in sorted((*cell.siblings, *single), key=min):
        yield tuple(sorted(core))


def _pools(capacity: CellCapacity, reserved: Mapping[int, int]) -> Iterator[Pool]:
    for size, (total, free) in capacity.pages.items():
        kept = reserved.get(size, 0)
        yield Pool(size_kb=size, total=total, reserved=kept, used=total - kept - free, free=free)


class _Uses:
    """The use of each CPU of a host."""

    def __init__(self, state: NodeState, topology: Topology) -> None:
        self._state, self._online = state, topology.cpus
        self._shared = state.policy.numa.shared(topology.cpus)
        self._dedicated = state.policy.numa.dedicated(topology.cpus)

    def cpu(self, number: int) -> Cpu:
        """A claimed CPU is shown as claimed, also if it is offline or used by other domains."""
        seen = self._pinned(number)
        claim = claim_of(self._state, (PCPU, str(number)))
        if claim is not None:
            return self._claimed(number, claim, seen)
        if number not in self._online:
            return Cpu(id=number, use=OFFLINE)
        if seen and number not in self._shared:
            first = self._state.domain_usages[seen[0]]
            return Cpu(
                id=number, use=FOREIGN, owner_id=seen[0], name=first.name, intruders=seen[1:]
            )
        return Cpu(id=number, use=self._unowned(number))

    def _unowned(self, number: int) -> str:
        if number in self._dedicated:
            return FREE
        return SHARED if number in self._shared else HOST

    def _pinned(self, number: int) -> tuple[str, ...]:
        """Uuids of domains that differ from their claims, or have none, and may run there."""
        return tuple(
            sorted(
                domain_usage.domain_uuid
                for domain_usage in self._state.domain_usages.values()
                if domain_usage.active and number in domain_usage.occupancy.pcpus
            )
        )

    def _claimed(self, number: int, claim: Claim, seen: tuple[str, ...]) -> Cpu:
        kept = claim.numa_topology is not None and number in claim.numa_topology.kept
        return Cpu(
            id=number,
            use=KEPT if kept else CLAIMED,
            owner_id=claim.owner_id,
            name=claim.instance.display_name,
            claim_uuid=claim.uuid,
            intruders=tuple(uuid for uuid in seen if uuid != claim.owner_id),
        )
