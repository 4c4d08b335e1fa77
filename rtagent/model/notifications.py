"""The events that a change causes, except drift, which the audit adds. Pure.

They follow from the state before a change and from the change, so every change has them, whichever
call or audit makes it.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from rtagent.model import event as event_types
from rtagent.model import migration
from rtagent.model.base import made_from
from rtagent.model.change import Change, Event
from rtagent.model.claim import ACTIVE, RELEASED
from rtagent.model.device import PciDevice
from rtagent.model.event import (
    ClaimPayload,
    DevicePayload,
    DrainPayload,
    MovePayload,
    NodePayload,
    Notification,
)
from rtagent.model.node_state import NodeState

#: Characters of a reason that an event has. The claim's history has the whole reason.
MAX_REASON = 1000
_ARRIVED = frozenset({migration.FINISHED, migration.COMPLETED, migration.DONE})
#: The fields of a change that are the node's own.
_NODE_PARTS = (
    "topology",
    "policy",
    "resource_inventories",
    "failed_builds",
    "disk_available_least",
)


def with_notifications(before: NodeState, change: Change) -> Change:
    """Return the change with the events that it causes, before those that it has."""
    if change.announces:
        return change
    found = notifications_of(before, change)
    return replace(change, notifications=(*found, *change.notifications)) if found else change


def notifications_of(before: NodeState, change: Change) -> tuple[Notification, ...]:
    """Return the events of a change, in the order in which consumers get them."""
    return (
        *map(_of_claim, change.events),
        *_drain(before, change),
        *_moves(before, change),
        *_devices(before, change),
        *_node(before, change),
    )


def _of_claim(event: Event) -> Notification:
    claim, before = event.after, event.before
    topology = claim.numa_topology
    return Notification(
        type=_claim_type(event),
        payload=made_from(
            ClaimPayload,
            claim,
            claim.instance,
            claim_uuid=claim.uuid,
            action=event.action,
            reason=event.reason[:MAX_REASON],
            before_state=before.state if before is not None else None,
            suspect=claim.suspect and claim.suspect[:MAX_REASON],
            host_cpus=tuple(sorted(topology.taken)) if topology is not None else (),
            pci_devices=tuple([device.address for device in claim.pci]),
            resources=tuple([unit.identifier for unit in claim.resources]),
            flavor=claim.flavor.name,
        ),
    )


def _claim_type(event: Event) -> str:
    before, after = event.before, event.after
    if before is None:
        return event_types.CLAIM_CREATE
    if after.state == RELEASED:
        return event_types.CLAIM_EXPIRE if event.action == "expire" else event_types.CLAIM_RELEASE
    if after.suspect is not None and before.suspect is None:
        return event_types.CLAIM_SUSPECT
    if after.state == ACTIVE and before.state != ACTIVE:
        return event_types.CLAIM_ACTIVATE
    return event_types.CLAIM_UPDATE


def _moves(before: NodeState, change: Change) -> Iterator[Notification]:
    for record in change.migrations:
        known = before.migrations.get(record.uuid)
        if known is not None and known.status == record.status:
            continue
        yield Notification(
            type=_move_type(record, known),
            payload=made_from(
                MovePayload,
                record,
                migration_uuid=record.uuid,
                before_status=known.status if known else None,
            ),
        )


def _move_type(record: migration.Migration, before: migration.Migration | None) -> str:
    status = record.status
    if status == migration.REVERTED:
        return event_types.MOVE_REVERT
    if status in migration.RETURNED:
        return event_types.MOVE_ERROR
    if status in _ARRIVED and record.role == migration.DEST:
        return event_types.MOVE_FINISH
    if status == migration.CONFIRMED or status in _ARRIVED:
        return event_types.MOVE_CONFIRM
    return event_types.MOVE_START if before is None else event_types.MOVE_UPDATE


def _devices(before: NodeState, change: Change) -> Iterator[Notification]:
    for address in change.device_removals:
        if (gone := before.devices.get(address)) is not None and _usable(gone):
            yield _of_device(event_types.DEVICE_VANISH, gone)
    for device in change.devices:
        known = before.devices.get(device.address)
        was_there, was = known is not None and _usable(known), known and known.quarantine
        if _usable(device) != was_there:
            yield _of_device(
                event_types.DEVICE_APPEAR if _usable(device) else event_types.DEVICE_VANISH, device
            )
        if device.quarantine is not None and was is None:
            yield _of_device(event_types.DEVICE_QUARANTINE, device)
        if device.quarantine is None and was is not None:
            yield _of_device(event_types.DEVICE_CLEAR, device)


def _usable(device: PciDevice) -> bool:
    return device.present and device.listed


def _of_device(type_: str, record: PciDevice) -> Notification:
    quarantine = record.quarantine and record.quarantine[:MAX_REASON]
    payload = made_from(
        DevicePayload,
        record.device,
        record,
        label=record.device.label,
        quarantine=quarantine,
    )
    return Notification(type=type_, payload=payload)


def _drain(before: NodeState, change: Change) -> Iterator[Notification]:
    drain = before.drain if change.undrained else change.drain
    if drain is None:
        return
    yield Notification(
        type=event_types.NODE_UNDRAIN if change.undrained else event_types.NODE_DRAIN,
        payload=made_from(
            DrainPayload,
            drain,
            hypervisor_hostname=before.node.hypervisor_hostname,
            reason=drain.reason[:MAX_REASON],
            claims=len(before.claims),
        ),
    )


def _node(before: NodeState, change: Change) -> Iterator[Notification]:
    new = {part: getattr(change, part) for part in _NODE_PARTS}
    changed = tuple(
        part for part, value in new.items() if value is not None and value != getattr(before, part)
    )
    topology = change.topology or before.topology
    if not changed or topology is None:
        return
    policy = change.policy or before.policy
    least, failed = change.disk_available_least, change.failed_builds
    yield Notification(
        type=event_types.NODE_UPDATE,
        payload=made_from(
            NodePayload,
            topology,
            changed=changed,
            hypervisor_hostname=before.node.hypervisor_hostname,
            cpus=len(topology.cpus),
            cpu_allocation_ratio=float(policy.cpu_allocation_ratio),
            ram_allocation_ratio=float(policy.ram_allocation_ratio),
            disk_allocation_ratio=float(policy.disk_allocation_ratio),
            reserved_host_cpus=policy.reserved_cpus,
            reserved_host_memory_mb=policy.reserved_memory_mb,
            reserved_host_disk_mb=policy.reserved_disk_mb,
            failed_builds=before.failed_builds if failed is None else failed,
            disk_available_least=before.disk_available_least if least is None else least,
        ),
    )
