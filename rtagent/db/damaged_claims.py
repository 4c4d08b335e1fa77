"""Claims whose row is damaged: what they may hold, as far as the row shows it.

Columns and document repeat each other: quantities are also in the flavor and the assignment, units
also in rows of their own. The larger of the two counts. The claim is quarantined.
"""

from collections.abc import Collection, Mapping, Set
from typing import Any

from msgspec.structs import replace

from rtagent.db.checked_rows import LONG_AGO, credible
from rtagent.model.assignment import AssignedResource, Assignment, CellAssignment, quantity_of_unit
from rtagent.model.claim import (
    ACTIVE,
    ATTACH,
    BUILD,
    DAMAGED,
    INCOMING,
    LEASED_STATES,
    LIVE_STATES,
    MOVE_TYPES,
    PCI,
    PCPU,
    QUANTITY,
    RESOURCE,
    SERVER,
    Claim,
    Unit,
)
from rtagent.model.device import STANDARD, AssignedDevice
from rtagent.model.node import Node
from rtagent.model.request import Flavor, InstanceFacts
from rtagent.model.units import MB_IN_GB
from rtagent.pci.mdev import parent_address

Fields = dict[str, Any]

_CLAIM_TYPES = MOVE_TYPES | {BUILD, ATTACH}


def salvaged(
    columns: Mapping[str, Any],
    document: Mapping[str, Any] | None,
    node: Node,
    revision: int,
    faults: Collection[str],
) -> Claim:
    """Return the claim of a damaged row, quarantined.

    :param columns: the values of the columns; None where one cannot be read. The uuid can.
    :param document: the fields of the document, or None.
    :param revision: of the node.
    """
    parts = dict(document or {"instance": InstanceFacts(), "flavor": Flavor(vcpus=1, memory_mb=1)})
    state = columns["state"] if columns["state"] in LIVE_STATES else ACTIVE
    if state == INCOMING and columns["migration_uuid"] is None:  # an incoming claim has a move
        state = ACTIVE
    last_change = credible(columns["revision"])
    kind = columns["kind"] if columns["kind"] in _CLAIM_TYPES else BUILD
    return Claim(
        host=node.host,
        node=node.hypervisor_hostname,
        node_uuid=node.uuid,
        uuid=columns["uuid"],
        owner_type=columns["owner_type"] or SERVER,
        owner_id=columns["owner_id"] or columns["uuid"],
        kind=kind,
        state=state,
        suspect=f"{DAMAGED}{', '.join(faults)}",
        migration_uuid=columns["migration_uuid"],
        expires_at=columns["expires_at"] if state in LEASED_STATES else None,
        revision=last_change if last_change <= revision else 0,
        created_at=columns["created_at"] or LONG_AGO,
        updated_at=columns["updated_at"] or LONG_AGO,
        **_quantities(columns, parts, kind),
        **parts,
    )


def without_units(claim: Claim, taken: Set[Unit]) -> Claim:
    """Return the claim without these units: sound claims of other owners have them."""
    if not claim.units & taken:
        return claim
    return replace(
        claim,
        numa_topology=_without_cpus(claim.numa_topology, taken),
        pci=tuple(d for d in claim.pci if (PCI, d.address) not in taken),
        resources=tuple(r for r in claim.resources if (RESOURCE, r.identifier) not in taken),
    )


def with_units(claim: Claim, units: Set[Unit]) -> Claim:
    """Return the claim with these units added. They stay unavailable to others."""
    more = sorted(units - claim.units)
    quantities = [name for kind, name in more if kind == QUANTITY]
    cpus = frozenset(int(name) for kind, name in more if kind == PCPU and name.isdecimal())
    return replace(
        claim,
        numa_topology=_with_cpus(claim.numa_topology, cpus),
        pci=(*claim.pci, *(_device(name) for kind, name in more if kind == PCI)),
        resources=(*claim.resources, *(_resource(name) for kind, name in more if kind == RESOURCE)),
        quantities=(*claim.quantities, *filter(None, map(quantity_of_unit, quantities))),
    )


def _quantities(columns: Mapping[str, Any], parts: Mapping[str, Any], kind: str) -> Fields:
    """Return the larger quantity of columns and document. Devices that are attached to a guest come
    without CPUs and memory.
    """
    flavor, assignment = parts["flavor"], parts.get("numa_topology")
    pcpus = assignment.pcpus if assignment else 0
    asked = {"pcpus": pcpus}
    if kind != ATTACH:
        disk_gb = flavor.root_gb + flavor.ephemeral_gb
        asked |= {
            "vcpus": max(0, flavor.vcpus - pcpus),
            "memory_mb": flavor.memory_mb,
            "disk_mb": disk_gb * MB_IN_GB + flavor.swap,
        }
    names = ("vcpus", "pcpus", "memory_mb", "disk_mb")
    return {name: max(credible(columns[name]), asked.get(name, 0)) for name in names}


def _without_cpus(assignment: Assignment | None, taken: Set[Unit]) -> Assignment | None:
    if assignment is None:
        return None

    def free(cpu: int) -> bool:
        return (PCPU, str(cpu)) not in taken

    cells = (
        replace(
            cell,
            cpu_pinning={v: cpu for v, cpu in cell.cpu_pinning.items() if free(cpu)},
            cpuset_reserved=frozenset(filter(free, cell.cpuset_reserved)),
            cpuset_kept=frozenset(filter(free, cell.cpuset_kept)),
        )
        for cell in assignment.cells
    )
    return replace(assignment, cells=tuple(cells))


def _with_cpus(assignment: Assignment | None, cpus: frozenset[int]) -> Assignment | None:
    if not cpus:
        return assignment
    first, *others = (assignment and assignment.cells) or (CellAssignment(id=0, memory=0),)
    cells = (replace(first, cpuset_kept=first.cpuset_kept | cpus), *others)
    return replace(assignment or Assignment(), cells=cells)


def _device(address: str) -> AssignedDevice:
    return AssignedDevice(
        address=address, vendor_id="", product_id="", dev_type=STANDARD, request_id=""
    )


def _resource(identifier: str) -> AssignedResource:
    return AssignedResource(
        resource_class="", identifier=identifier, parent_addr=parent_address(identifier)
    )
