"""The host's CPUs, cells and pages with who has what of them, as documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rtagent.api.nodes import check_served
from rtagent.api.owners import holder
from rtagent.model.base import Value
from rtagent.model.claim import PCPU, Claim
from rtagent.model.host import HostState
from rtagent.model.topology import Cell, Topology
from rtagent.numa.room import Room, rooms

#: What becomes of a host CPU: a guest's own, idle beside one, for shared vCPUs, for pinning and not
#: taken, taken by a domain without a claim, the host's own, switched off.
CLAIMED, KEPT, SHARED, FREE, FOREIGN, HOST, OFFLINE = USES = (
    "claimed",
    "kept",
    "shared",
    "free",
    "foreign",
    "host",
    "offline",
)


class Cpu(Value, frozen=True, kw_only=True):
    """One host CPU.

    :ivar use: one of `USES`. :ivar owner_id: the instance, or the foreign domain, that has it.
    :ivar name: of that one. :ivar claim_uuid: None where no claim says so.
    :ivar intruders: uuids of domains that are confined to it beside its owner.
    """

    id: int
    use: str
    owner_id: str | None = None
    name: str | None = None
    claim_uuid: str | None = None
    intruders: tuple[str, ...] = ()


class Pool(Value, frozen=True, kw_only=True):
    """Memory pages of one size.

    :ivar size_kb: KiB. :ivar used: pages. Those of the smallest size hold what was given without an
        explicit one. :ivar free: pages; negative where more is used than there is.
    """

    size_kb: int
    total: int
    reserved: int
    used: int
    free: int


class CellMap(Value, frozen=True, kw_only=True):
    """One NUMA cell.

    :ivar memory_mb: MB. :ivar memory_used_mb: MB that were given with a place.
    :ivar vcpus: shared ones that were given this place.
    :ivar cores: the CPUs of each core side by side; those that are offline, one by one.
    """

    id: int
    sockets: tuple[int, ...]
    memory_mb: int
    memory_used_mb: int
    vcpus: int
    cores: tuple[tuple[Cpu, ...], ...]
    pages: tuple[Pool, ...]


def collection(state: HostState) -> Mapping[str, Any]:
    """Shape: ``{"numa": [host]}``; an agent serves one."""
    return {"numa": [host(state)]}


def member(state: HostState, name: str) -> Mapping[str, Any]:
    """Shape: ``{"numa": host}``.

    :param name: the node's uuid or its hypervisor_hostname.
    :raises NodeNotFound:
    """
    check_served(state, name)
    return {"numa": host(state)}


def host(state: HostState) -> dict[str, Any]:
    """Shape: ``{"uuid", "hypervisor_hostname", "cells": [CellMap]}``; no cells where the hypervisor
    tells of none, or has not been seen."""
    return {
        "uuid": state.node.uuid,
        "hypervisor_hostname": state.node.hypervisor_hostname,
        "cells": tuple(_cells(state, state.topology)) if state.topology else (),
    }


def _cells(state: HostState, topology: Topology) -> Iterator[CellMap]:
    uses = _Uses(state, topology)
    room_of = {room.id: room for room in rooms(topology, state.usage.numa, state.policy.numa)}
    for cell in topology.cells:
        room = room_of[cell.id]
        yield CellMap(
            id=cell.id,
            sockets=tuple(sorted(cell.sockets)),
            memory_mb=room.memory_mb,
            memory_used_mb=room.memory_used,
            vcpus=room.vcpus,
            cores=tuple(tuple(map(uses.cpu, core)) for core in _cores(cell)),
            pages=tuple(_pools(room, state.policy.numa.reserved_huge_pages.get(cell.id, {}))),
        )


def _cores(cell: Cell) -> Iterator[tuple[int, ...]]:
    together = frozenset[int]().union(*cell.siblings)
    alone = (frozenset({cpu}) for cpu in (cell.cpus | cell.offline) - together)
    for core in sorted((*cell.siblings, *alone), key=min):
        yield tuple(sorted(core))


def _pools(room: Room, reserved: Mapping[int, int]) -> Iterator[Pool]:
    for size, (total, free) in room.pages.items():
        kept = reserved.get(size, 0)
        yield Pool(size_kb=size, total=total, reserved=kept, used=total - kept - free, free=free)


class _Uses:
    """Who has each CPU of a host."""

    def __init__(self, state: HostState, topology: Topology) -> None:
        self._state, self._online = state, topology.cpus
        self._shared = state.policy.numa.shared(topology.cpus)
        self._dedicated = state.policy.numa.dedicated(topology.cpus)

    def cpu(self, number: int) -> Cpu:
        """A claim goes before all else: what is offline and held is held."""
        seen = self._confined(number)
        claim = holder(self._state, (PCPU, str(number)))
        if claim is not None:
            return self._held(number, claim, seen)
        if number not in self._online:
            return Cpu(id=number, use=OFFLINE)
        if seen and number not in self._shared:
            first = self._state.holdings[seen[0]]
            return Cpu(
                id=number, use=FOREIGN, owner_id=seen[0], name=first.name, intruders=seen[1:]
            )
        return Cpu(id=number, use=self._offered(number))

    def _offered(self, number: int) -> str:
        if number in self._dedicated:
            return FREE
        return SHARED if number in self._shared else HOST

    def _confined(self, number: int) -> tuple[str, ...]:
        """Domains that differ from their claims, or have none, and may run there."""
        return tuple(
            sorted(
                holding.domain_uuid
                for holding in self._state.holdings.values()
                if holding.active and number in holding.occupancy.pcpus
            )
        )

    def _held(self, number: int, claim: Claim, seen: tuple[str, ...]) -> Cpu:
        kept = claim.numa_topology is not None and number in claim.numa_topology.kept
        return Cpu(
            id=number,
            use=KEPT if kept else CLAIMED,
            owner_id=claim.owner_id,
            name=claim.instance.display_name,
            claim_uuid=claim.uuid,
            intruders=tuple(uuid for uuid in seen if uuid != claim.owner_id),
        )
