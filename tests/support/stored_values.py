"""Values to store: claims, devices, domains, migrations, and changes of them."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from msgspec.structs import replace

from rtagent.model.assignment import Assignment, CellAssignment
from rtagent.model.change import Change, Event, Operation
from rtagent.model.claim import Claim
from rtagent.model.device import Device, PciDevice
from rtagent.model.domain_usage import HostResource
from rtagent.model.node import Node, NodeRecord
from rtagent.model.node_state import NodeState, restore
from rtagent.model.policy import NumaPolicy, Policy
from rtagent.model.stored import Stored
from rtagent.ports import Enroll
from tests.support import stored_forms
from tests.support.claims import assigned
from tests.support.stored_forms import (
    DEVICE,
    FULL,
    INVENTORIES,
    NODE,
    NOW,
    ODD,
    TOPOLOGY,
    WRITER,
    claim,
    created,
    domain_usage,
    migration,
    operation,
    released,
    uuid,
)

#: Names of `stored_forms` that are imported from here, too.
__all__ = ["DEVICE", "INVENTORIES", "NODE", "NOW", "ODD", "TOPOLOGY", "WRITER", "claim", "uuid"]
__all__ += ["created", "domain_usage", "migration", "operation", "released"]

POLICY = Policy(
    reserved_memory_mb=512,
    cpu_allocation_ratio=Decimal("16.1"),
    ram_allocation_ratio=Decimal("1.5"),
    disk_allocation_ratio=Decimal("0.1"),
    numa=NumaPolicy(
        cpu_shared_set=frozenset({0}),
        cpu_dedicated_set=frozenset({1, 2, 7, 8}),
        reserved_huge_pages={0: {2048: 64}},
    ),
)
OCCUPANCY = replace(stored_forms.OCCUPANCY, unknown=frozenset(HostResource))


def take_over(records: Sequence[NodeRecord]) -> NodeRecord:
    """Enroll as the next writer, with one epoch more."""
    mine = [record for record in records if record.node.uuid == NODE.uuid]
    old = mine[0] if mine else NodeRecord(node=NODE, epoch=0, revision=0)
    return replace(old, node=NODE, epoch=old.epoch + 1, writer=WRITER, deleted_at=None)


def rule(node: Node, epoch: int, **other: Any) -> Enroll:
    """Return a rule that writes this record."""
    return lambda _: NodeRecord(node=node, epoch=epoch, revision=0, writer=WRITER, **other)


def state_of(stored: Stored) -> NodeState:
    """Restore the state, as an agent does at its start."""
    return restore(stored, POLICY)


def pinned(number: int, *cpus: int, **fields: Any) -> Claim:
    """A claim with one vCPU pinned to each of these host CPUs."""
    cell = CellAssignment(id=0, memory=1024, cpu_pinning=dict(enumerate(cpus)))
    place: dict[str, Any] = {"vcpus": 0, "pcpus": len(cpus)}
    return claim(number, numa_topology=Assignment(cells=(cell,)), **{**place, **fields})


def odd_claim(number: int) -> Claim:
    """A claim with an unusual value in every field."""
    return replace(FULL, uuid=uuid(1000 + number), owner_id=uuid(2000 + number))


def device(number: int, **fields: Any) -> PciDevice:
    """A plain device."""
    address = f"0000:{number:02x}:00.0"
    return PciDevice(device=Device(address=address, vendor_id="10de", product_id="13f1"), **fields)


def with_devices(number: int, *devices: PciDevice, **fields: Any) -> Claim:
    """A claim with these devices."""
    pci = tuple(assigned(each.device, f"request {number}") for each in devices)
    return claim(number, pci=pci, **fields)


def ended(name: str) -> Operation:
    """The record of an id that was aborted before its call arrived."""
    return Operation(operation_id=name, digest="", method="abort", ended=True)


def devices(*puts: PciDevice) -> Change:
    """Add or change devices."""
    return Change(cause="audit", at=NOW, devices=puts)


def changed(before: Claim, **fields: Any) -> Change:
    """Change a claim."""
    after = replace(before, **fields)
    return Change(
        cause="activate_claim",
        at=NOW,
        puts=(after,),
        events=(Event(before=before, after=after, action="activate", reason=ODD),),
    )


def folded(state: NodeState, *changes: Change) -> NodeState:
    """Fold changes into a state, in memory only."""
    for change in changes:
        state = state.fold(change)
    return state
